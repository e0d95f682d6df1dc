"""What the pages of all jobs share: a head with the state and a way to stop it, a bar, and looking until it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from penstock.console.frame import Visit, refreshing
from penstock.console.parts import TONES, box, button, chip, crumb, grow, title

OVER: Final = ("done", "failed", "stopped")
_EVERY: Final = 0.5


class Job(Protocol):
    @property
    def state(self) -> str: ...


J = TypeVar("J", bound=Job)


class JobHead:
    """The first line of the page."""

    def __init__(self, visit: Visit, name: str, stop: Callable[..., Any], job_id: str) -> None:
        with box("head"):
            crumb("Jobs", "/jobs")
            title(name)
            self._chip = chip("queued")
            grow()
            self._stop = button("Stop", lambda: visit.tell("It ends.", stop, job_id))

    def show(self, state: str, *, may_stop: bool = True) -> None:
        self._stop.visible = may_stop and state not in OVER
        self._chip.text = state
        self._chip.classes(replace=f"chip {TONES.get(state, 'rest')}")


class Bar:
    """How far it is."""

    def __init__(self) -> None:
        with box("bar") as bar, box("") as self._filled:
            pass
        bar.props('role=progressbar aria-label="Progress"')

    def show(self, done: int, total: int) -> None:
        self._filled.style(f"width: {100 * done / max(1, total):.1f}%")


def follow(ask: Callable[[], Awaitable[J]], show: Callable[[J], None]) -> None:
    """Show it again and again until it is over."""

    async def look() -> None:
        now = await ask()
        show(now)
        if now.state in OVER:
            timer.deactivate()

    timer = refreshing(look)
    timer.interval = _EVERY
