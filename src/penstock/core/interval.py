"""Things that are done at fixed intervals, in one loop."""

from __future__ import annotations

from penstock.core.clock import SYSTEM, Clock


class IntervalGate:
    """Says what is due; the first time, everything is."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    def is_due(self, what: str, every: float) -> bool:
        """Whether `every` seconds have passed since this was due last; it counts as done then."""
        now = self._clock.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True
