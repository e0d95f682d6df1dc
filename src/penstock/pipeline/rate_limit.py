"""The rate limit: lets events through evenly, over all units of a pipeline in this worker."""

from __future__ import annotations

import time

from penstock.core.deadline import Deadline

_BURST = 0.05
"""Seconds' worth of events that may pass at once: fine enough to be even, coarse enough to cost nothing."""


class RateLimiter:
    """Kept from unit to unit, so that the pace is that of the pipeline and not of each window."""

    def __init__(self) -> None:
        self.rate: float | None = None
        self._next = 0.0

    def allow(self, wanted: int, deadline: Deadline) -> int:
        """How many of `wanted` events may begin now; waits for the first one, 0 when the deadline comes before it."""
        rate = self.rate
        if rate is None or wanted == 0:
            return wanted
        now = time.monotonic()
        self._next = max(self._next, now - _BURST)
        wait = self._next - now
        if rate <= 0 or wait >= deadline.remaining:
            time.sleep(deadline.remaining)
            return 0
        if wait > 0:
            time.sleep(wait)
        now = time.monotonic()
        allowed = min(wanted, max(1, int((now - self._next) * rate) + 1))
        self._next += allowed / rate
        return allowed
