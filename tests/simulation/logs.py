"""The driver's log in the simulation: nothing is written. Errors with a traceback are unexpected, and reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from tests.simulation.world import World

_worlds: list[World] = []


def attend(world: World) -> None:
    """From now on the log is about this world."""
    _worlds[:] = [world]


def _take(logger: object, method: str, event: dict[str, Any]) -> dict[str, Any]:
    if _worlds:
        world = _worlds[0]
        if world.trace:
            text = ", ".join(f"{name}={value}" for name, value in event.items() if name not in ("event", "exc_info"))
            world.note(f"log: {event.get('event')} {text}")
        if event.get("exc_info"):
            world.scheduler.complain(f"unexpected error: {event.get('event')}", error=True)
    raise structlog.DropEvent


def configure(*, everything: bool = False) -> None:
    """`everything`: also what is below an error; only a replay with a trace wants it."""
    level = 10 if everything else 40
    structlog.configure(
        processors=[_take],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )
