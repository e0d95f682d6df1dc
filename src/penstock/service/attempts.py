"""Counts failed log-ins, so that nobody tries passwords by the thousand."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Final

from penstock.core.clock import SYSTEM, Surroundings
from penstock.core.errors import PenstockError, Transient

WINDOW: Final = 300.0
"""Seconds over which failures are counted."""
_MOST_KEYS: Final = 10_000
"""Addresses and users that are remembered; beyond, those not heard of for longest are forgotten."""


class TooManyAttempts(PenstockError, Transient):
    """Log-ins have failed too often; later ones are answered again."""

    code = "too_many_attempts"

    def __init__(self, seconds: int) -> None:
        super().__init__("too many log-ins have failed", hint=f"try again in {seconds} s")
        self.seconds = seconds


class Attempts:
    """Failed log-ins of this process, by address and by user."""

    def __init__(self, limit: int, clock: Surroundings = SYSTEM) -> None:
        self._limit, self._clock = limit, clock
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, *keys: str) -> None:
        """Raise `TooManyAttempts` where one of them has failed too often."""
        now = self._clock.monotonic()
        with self._lock:
            waits = [self._wait(key, now) for key in keys]
        if longest := max(waits, default=0):
            raise TooManyAttempts(longest)

    def failed(self, *keys: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            for key in keys:
                self._failed.setdefault(key, deque(maxlen=self._limit)).append(now)
                self._failed.move_to_end(key)
            while len(self._failed) > _MOST_KEYS:
                self._failed.popitem(last=False)

    def succeeded(self, *keys: str) -> None:
        with self._lock:
            for key in keys:
                self._failed.pop(key, None)

    def _wait(self, key: str, now: float) -> int:
        times = self._failed.get(key)
        if times is None or len(times) < self._limit or times[0] <= now - WINDOW:
            return 0
        return int(times[0] + WINDOW - now) + 1
