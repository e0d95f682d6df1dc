"""Things that are done every so often, in one loop."""

from __future__ import annotations

import time


class IntervalGate:
    """Says what is due; the first time, everything is."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def is_due(self, what: str, every: float) -> bool:
        """Whether `every` seconds have passed since this was due last; it counts as done then."""
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True
