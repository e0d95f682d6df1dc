"""Taps: who looks at which pipelines' stages now. While nobody does, planning a unit asks one empty dictionary."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.worker.samples import Sample, TapStage, TapWish

MOST_PER_SECOND: Final = 1_000
_KEPT: Final = 2_000
"""Samples that wait for a slow looker; older ones are dropped."""


class Tap:
    """One looker's samples, in the order in which they came. Close it; it also ends by itself when its time is over."""

    def __init__(
        self, taps: Taps, pipeline: str, stages: Sequence[TapStage], per_second: float, seconds: float
    ) -> None:
        self.pipeline, self.stages, self.per_second = pipeline, frozenset(stages), per_second
        self.ends_at = time.monotonic() + seconds
        self._taps = taps
        self._news = threading.Condition()
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self.dropped = 0
        """Samples that nobody took in time."""

    def take(self, most: int, timeout: float) -> list[Sample]:
        """The next ones; none where none came within so many seconds."""
        with self._news:
            if not self._samples:
                self._news.wait(timeout)
            return [self._samples.popleft() for _ in range(min(most, len(self._samples)))]

    def put(self, samples: Iterable[Sample]) -> None:
        with self._news:
            for sample in samples:
                if sample.stage in self.stages:
                    self.dropped += len(self._samples) == _KEPT
                    self._samples.append(sample)
            self._news.notify_all()

    def close(self) -> None:
        self._taps.remove(self)


class Taps:
    """Of an instance; they outlive the flows, which are made anew when their spec changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, list[Tap]] = {}
        self._allowed: dict[str, tuple[float, float]] = {}
        """By pipeline: samples that may still be asked for, and when that was so."""

    def open(self, pipeline: str, stages: Sequence[TapStage], per_second: float, seconds: float) -> Tap:
        tap = Tap(self, pipeline, stages, min(per_second, MOST_PER_SECOND), seconds)
        with self._lock:
            self._open[pipeline] = [*self._open.get(pipeline, ()), tap]
            self._allowed[pipeline] = (self._rate(pipeline), time.monotonic())
        return tap

    def remove(self, tap: Tap) -> None:
        with self._lock:
            self._keep(tap.pipeline, [each for each in self._open.get(tap.pipeline, ()) if each is not tap])

    def _keep(self, pipeline: str, taps: list[Tap]) -> None:
        if taps:
            self._open[pipeline] = taps
        else:
            self._open.pop(pipeline, None)
            self._allowed.pop(pipeline, None)

    def wish(self, pipeline: str, lanes: int) -> TapWish | None:
        """What the next unit shall hand over, one of so many lanes; None: nothing."""
        if pipeline not in self._open:
            return None
        now = time.monotonic()
        with self._lock:
            # A looker may be gone without a word.
            self._keep(pipeline, [tap for tap in self._open.get(pipeline, ()) if tap.ends_at > now])
            stages = self._stages(pipeline)
            if not stages:
                return None
            left, since = self._allowed[pipeline]
            rate = self._rate(pipeline)
            shares = len(stages) * max(1, lanes)
            # However few are wanted: at least one of each stage, now and then.
            left = min(max(rate, shares), left + rate * (now - since))
            samples = int(left / shares)
            self._allowed[pipeline] = (left - samples * len(stages), now)
        return TapWish(stages, samples) if samples else None

    def give(self, pipeline: str, samples: Sequence[Sample]) -> None:
        """A unit has handed these over."""
        for tap in self._open.get(pipeline, ()):
            tap.put(samples)

    def _stages(self, pipeline: str) -> tuple[TapStage, ...]:
        return tuple(sorted({stage for tap in self._open.get(pipeline, ()) for stage in tap.stages}))

    def _rate(self, pipeline: str) -> float:
        return max(tap.per_second for tap in self._open[pipeline])
