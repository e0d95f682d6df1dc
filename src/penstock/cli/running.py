"""Runs an instance with its HTTP server, for `run` and `demo`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.api.server import HttpServer
from penstock.cli.exits import Exit
from penstock.config.settings import Settings
from penstock.core.metrics import METRICS
from penstock.engine.instance import Instance
from penstock.engine.spark import Spark
from penstock.service.health import STARTING, Health, instance_health
from penstock.service.logs import configure_logs
from penstock.service.run import PATIENCE, RunSummary, run_instance


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

    def health(self) -> Health:
        return STARTING if self.instance is None else instance_health(self.instance)


def run_with_server(
    settings: Settings,
    paths: Sequence[Path | str],
    *,
    on_address: Callable[[str | None], None],
    on_ready: Callable[[Instance], None],
    until_caught_up: bool = False,
    until_over: bool = False,
    patience: float = PATIENCE,
    strict: bool = False,
    stop: threading.Event | None = None,
    spark: Spark | None = None,
) -> Ended:
    """Serve metrics and health from the first moment on, run, and stop serving last."""
    configure_logs(**settings.log.model_dump(), secrets=settings.secrets)
    watch = Watch()
    server = _server(settings, watch) if settings.http.enabled else None
    address = server.start() if server else None
    on_address(address)

    def ready(instance: Instance) -> None:
        watch.instance = instance
        on_ready(instance)

    try:
        summary = run_instance(
            paths,
            settings,
            until_caught_up=until_caught_up,
            until_over=until_over,
            patience=patience,
            strict=strict,
            on_ready=ready,
            stop=stop,
            spark=spark,
            http_address=address,
        )
    finally:
        if server:
            server.stop()
    return Ended(summary.as_dict(), Exit.FAILED if summary.failed else Exit.OK, summary)


def _server(settings: Settings, watch: Watch) -> HttpServer:
    http = settings.http
    port = http.port if http.port_was_set else None
    return HttpServer(health=watch.health, metrics=METRICS.exposition, host=http.host, port=port)
