"""What a pipeline did in this process: counts, rate and latency, as faces show them."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.latency import Latencies, Times
from penstock.core.metrics import Metrics
from penstock.core.status import PipelineSummary, State
from penstock.engine.taps import Taps
from penstock.pipeline.messages import Counts, StepCounts, UnitOutcome

log = structlog.get_logger("penstock.pipeline")

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


class PipelineStats:
    """Filled by the pipeline's own thread, read by any."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.started_at = clock.time()
        self.counts = Counts()
        self.steps: list[StepCounts] = []
        """Of the filters and transforms, in their order."""
        self.times: dict[str, Times] = {}
        """How long an event took in each stage, by stage."""
        self.commits_refused = 0
        self.entries = 0
        """Outcomes that were added; while it stays the same, everything else does."""
        self.latencies = Latencies()
        self._recent: deque[tuple[float, int]] = deque()

    def add(self, outcome: UnitOutcome) -> None:
        now = self._clock.monotonic()
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
        now = self._clock.monotonic()
        with self._lock:
            recent = [(at, count) for at, count in self._recent if at >= now - _RATE_WINDOW]
        if not recent:
            return 0.0
        # The oldest entry says when its events were finished, not when they began: a second at least has passed.
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


class OutcomeObserver:
    """L3: counts and shows what became of an outcome, after its positions have moved. Nothing here can raise into the
    path from an outcome to its commit."""

    def __init__(self, spec: PipelineSpec, stats: PipelineStats, metrics: Metrics, taps: Taps) -> None:
        self._name, self._stats, self._metrics, self._taps = spec.name, stats, metrics, taps
        kinds = (("filters", spec.filters), ("transform", spec.transform))
        self._steps = [f"{kind}[{place}]" for kind, steps in kinds for place in range(len(steps))]
        """Names of the filters and transforms, in their order."""

    def observe(self, outcome: UnitOutcome) -> None:
        for step in (self._stats.add, self._count, self._give_samples, self._log):
            try:
                step(outcome)
            except Exception:
                log.exception("an outcome cannot be shown", pipeline=self._name)

    def committed(self, seconds: float) -> None:
        try:
            self._metrics.commit_seconds.labels(self._name).observe(seconds)
        except Exception:
            log.exception("a commit cannot be counted", pipeline=self._name)

    def commit_refused(self) -> None:
        self._stats.commits_refused += 1
        try:
            self._metrics.commit_failures.labels(self._name).inc()
        except Exception:
            log.exception("a refused commit cannot be counted", pipeline=self._name)

    def _count(self, outcome: UnitOutcome) -> None:
        c, metrics, name = outcome.counts, self._metrics, self._name
        filtered = max(0, c.filtered - c.unrouted)
        metrics.add_events(name, read=c.read, acted=c.acted, filtered=filtered, unrouted=c.unrouted, failed=c.failed)
        metrics.add_times(name, outcome.times, outcome.busy)
        for step, done in zip(self._steps, outcome.steps, strict=False):
            passed = max(0, done.processed - done.filtered - done.failed)
            metrics.add_step(name, step, passed=passed, dropped=done.filtered, failed=done.failed)
        metrics.add_early_filtered(name, c.early)
        metrics.add_retries(name, c.retried)
        if outcome.failures:
            stages = [failed.failure.stage for failed in outcome.failures]
            metrics.add_failures(name, {stage: stages.count(stage) for stage in set(stages)})
        if outcome.latencies.total:
            metrics.observe_latencies(name, outcome.latencies)

    def _give_samples(self, outcome: UnitOutcome) -> None:
        if outcome.samples:
            self._taps.give(self._name, outcome.samples)

    def _log(self, outcome: UnitOutcome) -> None:
        for remark in outcome.remarks:
            log.warning(remark, pipeline=self._name)
        if outcome.failures:
            # One line for all of a unit's failures, with the coordinates of the first and nothing of its content.
            record, failure = outcome.failures[0].record, outcome.failures[0].failure
            where = {"topic": record.topic(), "partition": record.partition(), "offset": record.offset()}
            what = {"stage": failure.stage, "error_code": failure.error_code, "events": len(outcome.failures)}
            log.info("dead letters", pipeline=self._name, **where, **what)
