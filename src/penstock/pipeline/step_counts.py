"""Counts of what each filter and transform did, added up per batch: an event costs nothing."""

from __future__ import annotations

import threading

from penstock.pipeline.messages import StepCounts


class StepCounter:
    """Of one step; retries may run it in other threads than the unit's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = StepCounts()

    def add(self, *, processed: int, passed: int, failed: int) -> None:
        """A batch has gone through: of `processed` events `passed` go on and `failed` raised; the rest was dropped."""
        with self._lock:
            self._counts.add(StepCounts(processed, processed - passed - failed, failed))

    def take(self) -> StepCounts:
        """What was added since this was asked last."""
        with self._lock:
            taken, self._counts = self._counts, StepCounts()
        return taken
