"""The driver's log in the simulation: nothing is written. Errors with a traceback are unexpected, and reported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog
from structlog._config import BoundLoggerLazyProxy

if TYPE_CHECKING:
    from tests.simulation.world import World

_worlds: list[World] = []
_ABANDONED = "work abandoned"
"""I10: what does not end within `drain_timeout` is given up, also where it ends a moment later: its window is
repeated."""


class SimLogger:
    """Made once for each logger of the driver; costs next to nothing while no trace is wanted."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def bind(self, **_: object) -> SimLogger:
        return self

    new = bind

    def _note(self, event: str, **values: Any) -> None:
        if _worlds and event.startswith(_ABANDONED):
            _worlds[0].judge.deaths("drain_timeout has passed", values["pipeline"])
        if _worlds and _worlds[0].trace:
            text = ", ".join(f"{name}={value}" for name, value in values.items())
            _worlds[0].note(f"log: {event} {text}")

    debug = info = warning = error = critical = _note

    def exception(self, event: str, **values: Any) -> None:
        self._note(event, **values)
        if _worlds:
            _worlds[0].scheduler.complain(f"unexpected error: {event}", error=True)


@contextmanager
def attend(world: World) -> Iterator[None]:
    """For as long as this is open, the log is about this world."""
    before = structlog.get_config()
    _forget_loggers()
    structlog.configure(wrapper_class=SimLogger, cache_logger_on_first_use=True)
    _worlds[:] = [world]
    try:
        yield
    finally:
        _worlds.clear()
        _forget_loggers()
        structlog.configure(**before)


def _forget_loggers() -> None:
    """Loggers remember how they were configured at their first use, in a test before this one or in this one."""
    for name, module in list(sys.modules.items()):
        found = vars(module).get("log") if name.startswith("penstock.") and module is not None else None
        if isinstance(found, BoundLoggerLazyProxy):
            vars(found).pop("bind", None)
