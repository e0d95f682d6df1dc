"""Runs an instance with its HTTP server, for `run` and `demo`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from fastapi import FastAPI

from penstock.api.server import HttpServer
from penstock.cli.exits import Exit
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.core.metrics import METRICS
from penstock.engine.instance import Instance
from penstock.engine.spark.context import Spark
from penstock.service.health import STARTING, Health, instance_health
from penstock.service.logs import configure_logs
from penstock.service.run import PATIENCE, RunSummary, run_instance

if TYPE_CHECKING:
    from penstock.service.authentication import Authentication
    from penstock.service.operations.desk import Desk

log = structlog.get_logger("penstock.run")


@dataclass(frozen=True, slots=True)
class Ended:
    """How an instance ended."""

    summary: dict[str, Any]
    code: Exit
    run: RunSummary


class Watch:
    """What the HTTP server may ask before, while and after the instance runs."""

    def __init__(self) -> None:
        self.instance: Instance | None = None
        self.stopping = False

    def health(self) -> Health:
        return STARTING if self.instance is None else instance_health(self.instance, stopping=self.stopping)


def run_with_server(
    settings: Settings,
    paths: Sequence[Path | str],
    *,
    on_address: Callable[[str | None], None],
    on_ready: Callable[[Instance], None],
    on_first_token: Callable[[Path], None] = lambda _: None,
    until_caught_up: bool = False,
    until_over: bool = False,
    patience: float = PATIENCE,
    strict: bool = False,
    stop: threading.Event | None = None,
    spark: Spark | None = None,
) -> Ended:
    """Serve metrics and health (and, unless the settings say otherwise, the console and the API) from the first moment
    on, run, and stop serving last. `on_first_token` is given the file of the token that lets the first admin in."""
    configure_logs(**settings.log.model_dump(), secrets=settings.secrets)
    watch = Watch()
    told_to_stop = stop is not None and stop.is_set()
    # A run that ends by itself is watched by whoever started it.
    face = Face(settings, watch) if settings.http.console and not (until_caught_up or told_to_stop) else None
    server = _server(settings, watch, face) if settings.http.enabled and not told_to_stop else None
    try:
        address = server.start() if server else None
        on_address(address)
        if face is not None and (file := face.write_first_token()) is not None:
            on_first_token(file)

        def ready(instance: Instance) -> None:
            watch.instance = instance
            on_ready(instance)

        def ending() -> None:
            watch.stopping = True
            if face is not None:
                face.end_jobs()

        summary = run_instance(
            paths,
            settings,
            until_caught_up=until_caught_up,
            until_over=until_over,
            patience=patience,
            strict=strict,
            on_ready=ready,
            on_stopping=ending,
            stop=stop,
            spark=spark,
            http_address=address,
        )
    finally:
        if server:
            server.stop()
        if face:
            face.close()
    return Ended(summary.as_dict(), Exit.FAILED if summary.failed else Exit.OK, summary)


class Face:
    """The API and the console, and what they stand on; made when the server's app is."""

    def __init__(self, settings: Settings, watch: Watch) -> None:
        self._settings, self._watch = settings, watch
        self._desk: Desk | None = None
        self._authentication: Authentication | None = None

    def extend(self, app: FastAPI) -> None:
        """Add both to the app. They are imported here: nobody else needs them."""
        from penstock.api.app import mount_api
        from penstock.console.app import mount
        from penstock.console.data import Data
        from penstock.service.authentication import Authentication
        from penstock.service.opening import opened_for_writing
        from penstock.service.operations.desk import Desk

        store = opened_for_writing(self._settings)
        self._desk = Desk(store, self._settings, lambda: self._watch.instance)
        self._authentication = Authentication(store, self._settings)
        mount_api(app, self._desk, self._authentication)
        mount(app, Data(self._desk, self._authentication))

    def write_first_token(self) -> Path | None:
        """The file of the token by which the first admin is let in; None where nobody needs one. Pipelines run also
        where it cannot be written: the command line makes tokens too."""
        try:
            return self._authentication.write_first_token() if self._authentication else None
        except ConfigError as error:
            log.warning(error.message, file=error.received, hint=error.hint)
            return None

    def end_jobs(self) -> None:
        """Replays work on the instance's Spark, and end before it does."""
        if self._desk is not None:
            self._desk.close()

    def close(self) -> None:
        if self._desk is not None:
            self._desk.store.close()


def _server(settings: Settings, watch: Watch, face: Face | None) -> HttpServer:
    http = settings.http
    port = http.port if http.port_was_set else None
    return HttpServer(
        health=watch.health,
        metrics=METRICS.exposition,
        host=http.host,
        port=port,
        extend=face.extend if face else None,
        open_to_others=http.auth != "off",
        trusted_proxies=http.trusted_proxies,
        max_message=http.max_body,
        tls=(http.tls_certificate, http.tls_key) if http.tls_certificate and http.tls_key else None,
    )
