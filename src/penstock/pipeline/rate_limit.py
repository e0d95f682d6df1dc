"""The rate limit: lets events begin evenly, over all units of a pipeline in this process."""

from __future__ import annotations

from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline

_BURST = 0.05
"""Seconds' worth of events that may begin at once: fine enough to be even, coarse enough to cost nothing."""


class RateLimiter:
    """Kept from unit to unit, so that the rate is that of the pipeline and not of each window."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.rate: float | None = None
        self._clock = clock
        self._next = 0.0

    def allow(self, wanted: int, deadline: Deadline) -> int:
        """How many of `wanted` events may begin now. Blocks until the first one may; 0 when the deadline comes
        before."""
        rate, clock = self.rate, self._clock
        if rate is None or wanted == 0:
            return wanted
        now = clock.monotonic()
        self._next = max(self._next, now - _BURST)
        wait = self._next - now
        if rate <= 0 or wait >= deadline.remaining:
            clock.sleep(deadline.remaining)
            return 0
        if wait > 0:
            clock.sleep(wait)
        now = clock.monotonic()
        allowed = min(wanted, max(1, int((now - self._next) * rate) + 1))
        self._next += allowed / rate
        return allowed
