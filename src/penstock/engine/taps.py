"""Taps: live samples of pipelines' stages. While no tap is open, planning a unit looks into one empty dictionary."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.core.clock import SYSTEM, Clock
from penstock.pipeline.samples import Allowance, Sample, TapStage, TapWish

MOST_PER_SECOND: Final = 1_000
_ADDS_UP: Final = 2.0
"""Seconds: a unit takes about as long, and brings all its samples at once."""
_KEPT: Final = 4_000
"""Samples that wait for a slow looker; older ones are dropped."""


class Tap:
    """One looker's samples, in the order in which they came. Close it; it also ends by itself when its time is over."""

    def __init__(
        self, taps: Taps, pipeline: str, stages: Sequence[TapStage], per_second: float, seconds: float
    ) -> None:
        self.pipeline, self.stages, self.per_second = pipeline, frozenset(stages), per_second
        self._clock = taps.clock
        self.ends_at = self._clock.monotonic() + seconds
        self._taps = taps
        self._news = threading.Condition()
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._budget = _Budget(per_second, self._clock)
        self.dropped = 0
        """Samples that were not read in time."""

    def take(self, most: int, timeout: float) -> list[Sample]:
        """The next ones; none where none came within `timeout` seconds."""
        with self._news:
            if not self._samples:
                self._news.wait(timeout)
            return [self._samples.popleft() for _ in range(min(most, len(self._samples)))]

    def put(self, samples: Iterable[Sample]) -> None:
        mine = [sample for sample in samples if sample.stage in self.stages]
        with self._news:
            # Others may have asked for more than this one.
            room = int(self._budget.there(self._clock.monotonic(), least=len(self.stages)))
            chosen = mine if len(mine) <= room else [mine[place * len(mine) // room] for place in range(room)]
            self._budget.spend(len(chosen))
            self.dropped += max(0, len(self._samples) + len(chosen) - _KEPT)
            self._samples.extend(chosen)
            self._news.notify_all()

    def close(self) -> None:
        self._taps.remove(self)


class _Budget:
    """Samples that may be taken now: so many a second, and what was not taken in the last seconds."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        self.per_second, self._since = per_second, clock.monotonic()
        self._left = per_second * _ADDS_UP

    def there(self, now: float, least: int) -> float:
        """`least`: so many may always add up, however few come in a second."""
        most = max(self.per_second * _ADDS_UP, least)
        self._left = min(most, self._left + self.per_second * (now - self._since))
        self._since = now
        return max(0.0, self._left)

    def spend(self, samples: int) -> None:
        """It may have been more than there was: the debt is paid first."""
        self._left -= samples


class Taps:
    """The taps of an instance; they outlive the runners, which are replaced when their spec changes."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, list[Tap]] = {}
        self._budgets: dict[str, dict[TapStage, _Budget]] = {}

    def open(self, pipeline: str, stages: Sequence[TapStage], per_second: float, seconds: float) -> Tap:
        tap = Tap(self, pipeline, stages, min(per_second, MOST_PER_SECOND), seconds)
        with self._lock:
            self._keep(pipeline, [*self._open.get(pipeline, ()), tap])
        return tap

    def remove(self, tap: Tap) -> None:
        with self._lock:
            if tap in (taps := self._open.get(tap.pipeline, [])):
                self._keep(tap.pipeline, [each for each in taps if each is not tap])

    def _keep(self, pipeline: str, taps: list[Tap]) -> None:
        self._open.pop(pipeline, None)
        self._budgets.pop(pipeline, None)
        if taps:
            self._open[pipeline], self._budgets[pipeline] = taps, _wanted(taps, self.clock)

    def wish(self, pipeline: str, lanes: int) -> TapWish | None:
        """What the next unit shall hand over, one of so many lanes; None: nothing."""
        if pipeline not in self._open:
            return None
        now, shares = self.clock.monotonic(), max(1, lanes)
        with self._lock:
            taps = self._open.get(pipeline, [])
            # A tap ends by itself when its reader is gone.
            if any(tap.ends_at <= now for tap in taps):
                self._keep(pipeline, [tap for tap in taps if tap.ends_at > now])
            # However few are wanted: each lane takes one now and then.
            return {
                stage: Allowance(budget.there(now, least=shares) / shares, budget.per_second / shares)
                for stage, budget in self._budgets.get(pipeline, {}).items()
            } or None

    def give(self, pipeline: str, samples: Sequence[Sample]) -> None:
        """A unit has handed these over."""
        with self._lock:
            taps, budgets = list(self._open.get(pipeline, ())), self._budgets.get(pipeline, {})
            # Spent when units come back: what they did not use is there for the next ones.
            for stage, count in Counter(sample.stage for sample in samples).items():
                if stage in budgets:
                    budgets[stage].spend(count)
        for tap in taps:
            tap.put(samples)


def _wanted(taps: Sequence[Tap], clock: Clock) -> dict[TapStage, _Budget]:
    """Of each stage as much as who wants most of it; a looker's samples are shared out evenly over its stages."""
    most: dict[TapStage, float] = {}
    for tap in taps:
        for stage in tap.stages:
            most[stage] = max(most.get(stage, 0.0), tap.per_second / len(tap.stages))
    return {stage: _Budget(rate, clock) for stage, rate in most.items()}
