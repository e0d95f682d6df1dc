"""The bounded driver: works stretches of partitions through in windows, outside of any consumer group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from penstock.config.spec import PipelineSpec
from penstock.engine.pipelines.blueprint import blueprint_of, parallel_safe
from penstock.engine.replay.lane import ReplayLane
from penstock.engine.replay.work import Work
from penstock.engine.spark.context import Spark
from penstock.pipeline.messages import Counts

log = structlog.get_logger("penstock.replay")

_GRACE = 10.0
"""Seconds after which a cancelled replay no longer waits for an action."""
_LOOK_EVERY = 0.1


def lane_names(count: int) -> list[str]:
    return [f"replay-{n}" for n in range(count)]


def lane_count(spec: PipelineSpec, cores: int) -> int:
    """One for each core, unless the action may only exist once, or as often as the spec says."""
    return max(1, cores if parallel_safe(spec) else min(cores, spec.options.parallelism or 1))


class Replay:
    """One pipeline's bounded run."""

    def __init__(
        self,
        spark: Spark,
        spec: PipelineSpec,
        work: Work,
        *,
        rate: float | None = None,
        say: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self.counts = Counts()
        limits = [each for each in (rate, spec.options.rate_limit) if each is not None]
        self._rate = min(limits, default=None)
        names = lane_names(lane_count(spec, spark.cores))
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._say, self._waiting = say, dict[str, str]()
        self._error: BaseException | None = None
        blueprint = blueprint_of(spec)
        self._lanes = [ReplayLane(name, spark, blueprint, work, self) for name in names]

    def run(self, stop: threading.Event) -> None:
        """Work until everything is done, someone stops it, or it cannot go on, which is raised."""
        for lane in self._lanes:
            lane.start()
        patience: float | None = None
        while any(lane.is_alive() for lane in self._lanes):
            time.sleep(_LOOK_EVERY)
            for lane in self._lanes:
                lane.look(time.monotonic())
            if stop.is_set() and patience is None:
                self._over.set()
                patience = time.monotonic() + _GRACE
            if patience is not None and time.monotonic() >= patience:
                patience = time.monotonic() + _GRACE
                for lane in self._lanes:
                    lane.cancel()
        for lane in self._lanes:
            lane.close()
        if self._error is not None:
            raise self._error

    # -- what lanes tell -------------------------------------------------------------------

    @property
    def over(self) -> threading.Event:
        """Set: begin nothing more."""
        return self._over

    @property
    def rate(self) -> float | None:
        """The share of a lane that has work: events per second."""
        at_work = sum(lane.has_work for lane in self._lanes)
        return None if self._rate is None else self._rate / max(1, at_work)

    def end(self, error: BaseException) -> None:
        """It cannot go on."""
        with self._lock:
            self._error = self._error or error
        self._over.set()

    def count(self, counts: Counts) -> None:
        with self._lock:
            self.counts.add(counts)

    def waits(self, lane: str, reason: str) -> None:
        """A lane waits for something outside."""
        with self._lock:
            news = self._waiting.get(lane) != reason
            self._waiting[lane] = reason
        if news:
            log.warning("replay waits", lane=lane, reason=reason)
            self._say(reason)

    def goes_on(self, lane: str) -> None:
        with self._lock:
            calm = self._waiting.pop(lane, None) is not None and not self._waiting
        if calm:
            self._say(None)
