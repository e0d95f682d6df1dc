"""Logs: structlog for Penstock's words and the standard library's, free of secrets, for people or for machines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, Literal, TextIO

import structlog

from penstock.core.secrets import Scrubber
from penstock.core.visible import one_line, visible

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json"]
Output = Literal["stderr", "split"]

_NOISY = ("py4j", "aiohttp.access", "uvicorn", "asyncio", "alembic")
"""Libraries whose information is of no use to people who run pipelines."""

_ALSO: list[logging.Handler] = []
"""Further places that messages go to, as JSON."""
_STEPS: list[structlog.typing.Processor] = []
"""What every message goes through, scrubbing included."""
_SCRUB = [Scrubber()]
"""By the secrets that are known at present."""
_TRACEBACKS = ("exception", "stack")


def also_to(handler: logging.Handler) -> None:
    """Send messages there, too, as JSON; they are scrubbed as all are."""
    _ALSO.append(handler)
    handler.setFormatter(_formatter("json", sys.stderr))
    logging.getLogger().addHandler(handler)


def no_longer_to(handler: logging.Handler) -> None:
    _ALSO.remove(handler)
    logging.getLogger().removeHandler(handler)


def configure_logs(
    *,
    level: Level = "info",
    format: Format = "console",  # noqa: A002 - the setting's own name
    output: Output = "stderr",
    secrets: Iterable[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send everything to `stream` (default: by `output`); call again to change it, as with more secrets."""
    _SCRUB[0] = scrubber = Scrubber(secrets)
    _STEPS[:] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _Scrub(scrubber),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *_STEPS,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        # Loggers made before the settings were read must follow them too.
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_handler(target, format) for target in _targets(output, stream)]
    if len(root.handlers) > 1:
        root.handlers[0].addFilter(lambda record: record.levelno < logging.ERROR)
        root.handlers[1].setLevel(logging.ERROR)
    for handler in _ALSO:
        handler.setFormatter(_formatter("json", sys.stderr))
        root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _targets(output: Output, stream: TextIO | None) -> list[TextIO]:
    if stream is not None:
        return [stream]
    return [sys.stdout, sys.stderr] if output == "split" else [sys.stderr]


def _handler(target: TextIO, format: Format) -> logging.Handler:  # noqa: A002 - as above
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(format, target))
    return handler


def _formatter(format: Format, target: TextIO) -> logging.Formatter:  # noqa: A002 - as above
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=list(_STEPS),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(format, target)],
    )


def _renderer(format: Format, stream: TextIO) -> structlog.typing.Processor:  # noqa: A002 - as above
    if format == "json":
        return structlog.processors.JSONRenderer(ensure_ascii=True)
    return _Lines(structlog.dev.ConsoleRenderer(colors=stream.isatty(), sort_keys=False, pad_event_to=0))


class _Lines:
    """One line per message, whatever an event's text holds: nobody forges a line of its own. Tracebacks are indented,
    also the lines of their errors' texts."""

    def __init__(self, renderer: structlog.typing.Processor) -> None:
        self._render = renderer

    def __call__(self, logger: Any, name: str, event: MutableMapping[str, Any]) -> Any:
        shown = {
            key: (_indented(value) if key in _TRACEBACKS else one_line(value)) if isinstance(value, str) else value
            for key, value in event.items()
        }
        return self._render(logger, name, shown)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def scrubbed(text: str) -> str:
    """A text of another process (Spark's JVM, workers) as it may be shown: without the secrets that are known."""
    return visible(_SCRUB[0].scrub(text))


class _Scrub:
    """I8: no secret of settings or pipelines leaves through a log line; control characters are shown escaped."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber

    def __call__(self, _logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        # What structlog hands from step to step is taken out before anything is written.
        return {key: value if key == "_record" else self._clean(value) for key, value in event.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return visible(self._scrubber.scrub(value))
        if isinstance(value, dict):
            return {self._clean(str(key)): self._clean(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._clean(each) for each in value]
        if isinstance(value, (bool, int, float, type(None))):
            return value
        return visible(self._scrubber.scrub(str(value)))
