"""Waits that grow with each failure and begin anew after a success."""

from __future__ import annotations

import time

from penstock.core.clock import SYSTEM, Surroundings


class Backoff:
    """Says when the next try may begin."""

    def __init__(self, first: float = 0.5, most: float = 30.0, *, around: Surroundings = SYSTEM) -> None:
        self._first, self._most, self._around = first, most, around
        self.failures = 0
        self.until = 0.0

    def fail(self, asked: float | None = None) -> float:
        """Note a failure; the seconds to wait, at least those that were asked for (within an hour)."""
        wait = self._around.jittered(min(self._most, self._first * 2 ** min(self.failures, 16)), 0.2)
        wait = max(wait, min(asked or 0.0, 3600.0))
        self.failures += 1
        self.until = time.monotonic() + wait
        return wait

    def succeed(self) -> None:
        self.failures = 0
        self.until = 0.0

    @property
    def waiting(self) -> bool:
        return time.monotonic() < self.until
