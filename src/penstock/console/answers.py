"""Answers that tabs share: however many ask, the store is asked once in a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_SHARE: Final = 25.0
"""An answer is kept for so many times as long as it took: a slow question is at work 4 % of the time at most."""


class Shared(Generic[T]):
    """One question. Those who ask while it is being answered wait for that answer."""

    def __init__(self, ask: Callable[[], T], seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._lock = threading.Lock()
        self._answer: T | None = None
        self._good_until = 0.0

    def __call__(self) -> T:
        with self._lock:
            if self._answer is None or time.monotonic() >= self._good_until:
                began = time.monotonic()
                self._answer = self._ask()
                now = time.monotonic()
                self._good_until = now + max(self._seconds, _SHARE * (now - began))
            return self._answer

    def forget(self) -> None:
        """Ask anew next time: something was changed."""
        with self._lock:
            self._good_until = 0.0
