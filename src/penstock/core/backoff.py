"""Waits that grow with each failure and start over after a success."""

from __future__ import annotations

from penstock.core.clock import SYSTEM, Clock


class Backoff:
    """Says when the next attempt may begin."""

    def __init__(self, first: float = 0.5, most: float = 30.0, *, clock: Clock = SYSTEM) -> None:
        self._first, self._most, self._clock = first, most, clock
        self.failures = 0
        self.until = 0.0
        """Monotonic time of the next attempt."""

    def fail(self, asked: float | None = None) -> float:
        """Record a failure; returns the seconds to wait, at least those that were asked for (within an hour)."""
        wait = self._clock.jittered(min(self._most, self._first * 2 ** min(self.failures, 16)), 0.2)
        wait = max(wait, min(asked or 0.0, 3600.0))
        self.failures += 1
        self.until = self._clock.monotonic() + wait
        return wait

    def succeed(self) -> None:
        self.failures = 0
        self.until = 0.0

    @property
    def waiting(self) -> bool:
        return self._clock.monotonic() < self.until
