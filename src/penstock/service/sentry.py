"""Sentry: errors of the log go there too, with the words of the log and nothing more."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from penstock import __version__
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.service.logs import also_to, no_longer_to

if TYPE_CHECKING:
    import sentry_sdk

_FLUSH = 3.0
"""Seconds that a stop waits for the last errors to be sent."""
_OURS = {"event", "level", "logger", "timestamp", "exception"}


def begin_sentry(settings: Settings) -> Reporter | None:
    """Report errors from now on, if the settings ask for it."""
    if settings.sentry.dsn is None:
        return None
    try:
        import sentry_sdk  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "sentry.dsn is set, but Sentry's client is not installed", hint="pip install 'penstock[sentry]'"
        ) from error
    try:
        client = sentry_sdk.Client(
            dsn=settings.sentry.dsn.reveal(),
            environment=settings.sentry.environment,
            release=f"penstock@{__version__}",
            # Nothing is gathered that a line of the log would not say: events are not Sentry's business.
            default_integrations=False,
            auto_enabling_integrations=False,
            include_local_variables=False,
            max_breadcrumbs=0,
        )
    except ValueError as error:
        raise ConfigError(f"sentry.dsn: {error}") from error
    reporter = Reporter(client)
    also_to(reporter)
    return reporter


class Reporter(logging.Handler):
    """Sends what the log says at level error, as it says it: scrubbed of secrets."""

    def __init__(self, client: sentry_sdk.Client) -> None:
        super().__init__(logging.ERROR)
        self._client = client

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("sentry_sdk", "urllib3")):
            return  # what goes wrong with sending would be sent
        try:
            said: dict[str, Any] = json.loads(self.format(record))
            self._client.capture_event(_event(said))
        except Exception:  # noqa: BLE001 - logging's own way of saying that it failed
            self.handleError(record)

    def stop(self) -> None:
        """Send what is left, and report no more."""
        no_longer_to(self)
        self._client.close(timeout=_FLUSH)


def _event(said: dict[str, Any]) -> Any:
    tags = {name: str(value)[:200] for name, value in said.items() if name not in _OURS}
    message = str(said["event"])
    return {
        "level": "fatal" if said.get("level") == "critical" else "error",
        "logger": said.get("logger"),
        "logentry": {"formatted": message},
        "tags": tags,
        "fingerprint": [str(said.get("logger")), message, tags.get("pipeline", "")],
        "extra": {"exception": said["exception"]} if "exception" in said else {},
    }
