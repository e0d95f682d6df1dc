"""The driver's log in the simulation: nothing is written. Errors with a traceback are unexpected, and reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

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


def attend(world: World) -> None:
    """From now on the log is about this world."""
    structlog.configure(wrapper_class=SimLogger, cache_logger_on_first_use=True)
    _worlds[:] = [world]
