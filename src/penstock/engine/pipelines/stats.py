"""What a pipeline did in this process: counts, rate and latency, as faces show them."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from penstock.core.latency import Latencies, Times
from penstock.core.status import PipelineSummary, State
from penstock.pipeline.messages import Counts, StepCounts, UnitOutcome

_RATE_WINDOW = 10.0
"""Seconds over which the shown rate is taken."""


@dataclass(slots=True, kw_only=True)
class PipelineView:
    """A pipeline as one instance sees it now."""

    name: str
    state: State
    reason: str | None
    events: int = 0
    acted: int = 0
    filtered: int = 0
    failed: int = 0
    rate: float = 0.0
    """Events per second, lately."""
    p50_ms: float | None = None
    p99_ms: float | None = None
    lag: int | None = None
    dead_letters: int = 0
    temperature: str = "cold"


class PipelineStats:
    """Filled by the pipeline's own thread, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.started_at = time.time()
        self.counts = Counts()
        self.steps: list[StepCounts] = []
        """Of the filters and transforms, in their order."""
        self.times: dict[str, Times] = {}
        """How long an event took in each stage, by stage."""
        self.commits_refused = 0
        self.entries = 0
        """Outcomes that were added: what was read is still true while it stays the same."""
        self.latencies = Latencies()
        self._recent: deque[tuple[float, int]] = deque()

    def add(self, outcome: UnitOutcome) -> None:
        now = time.monotonic()
        with self._lock:
            self.entries += 1
            self.counts.add(outcome.counts)
            self.steps += [StepCounts() for _ in outcome.steps[len(self.steps) :]]
            for step, more in zip(self.steps, outcome.steps, strict=False):
                step.add(more)
            for stage, times in outcome.times.items():
                self.times.setdefault(stage, Times()).merge(times)
            self.latencies.merge(outcome.latencies)
            if outcome.counts.read:
                self._recent.append((now, outcome.counts.read))
            while self._recent and self._recent[0][0] < now - _RATE_WINDOW:
                self._recent.popleft()

    def rate(self) -> float:
        now = time.monotonic()
        with self._lock:
            recent = [(at, count) for at, count in self._recent if at >= now - _RATE_WINDOW]
        if not recent:
            return 0.0
        # The oldest entry tells when its events were finished, not when they began: a second at least has passed.
        return sum(count for _, count in recent) / max(1.0, now - recent[0][0] + 1.0)

    def summary(self) -> PipelineSummary:
        with self._lock:
            c = self.counts
            return PipelineSummary(
                events=c.read,
                acted=c.acted,
                filtered=c.filtered,
                failed=c.failed,
                p50_ms=self.latencies.quantile(0.5),
                p99_ms=self.latencies.quantile(0.99),
            )
