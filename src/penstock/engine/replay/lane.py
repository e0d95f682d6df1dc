"""One lane of a replay: windows over the stretches it took, until there are no more."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import structlog

from penstock.core.backoff import Backoff
from penstock.core.dead_letter import Stage
from penstock.core.errors import Unavailable
from penstock.engine.replay.segment import ReplaySegment
from penstock.engine.replay.work import PipelineUnusable, ReplayHalted, Work
from penstock.engine.spark.context import Spark, SparkDied, WindowLost, WindowRepeated
from penstock.pipeline import in_flight_log
from penstock.pipeline.messages import Blueprint, Bounds, Counts, FailedEvent, Halt, UnitOutcome, UnitRequest
from penstock.worker.protocol import WindowOutcome, WindowRequest

log = structlog.get_logger("penstock.replay")

_SECONDS = 2.0
"""Length of a window: how long a cancelled replay takes to end, if no action hangs."""
_COLLECT = 1.0
_IDLE = 0.1
"""Seconds to wait where acknowledgements are awaited."""
_SOON = 0.02
"""Seconds to wait where other lanes have the work, or more of it is being fetched."""
_MANY = 100_000
"""Events that a window may take."""
_THROW = "failure_mode is THROW"
_PATIENCE = 10.0
"""Seconds by which a window may be late."""
_FRUITLESS = 12
"""A worker that dies so often in a row of no event that could be named dies of something else."""
_units = itertools.count(1)

T = TypeVar("T")


class Director(Protocol):
    """The replay, as its lanes need it."""

    @property
    def over(self) -> threading.Event: ...
    def end(self, error: BaseException) -> None: ...
    def count(self, counts: Counts) -> None: ...
    def waits(self, lane: str, reason: str) -> None: ...
    def goes_on(self, lane: str) -> None: ...
    @property
    def rate(self) -> float | None: ...


class ReplayLane(threading.Thread):
    """Has a worker process of its own on local masters."""

    def __init__(self, name: str, spark: Spark, blueprint: Blueprint, work: Work, director: Director) -> None:
        super().__init__(name=name, daemon=True)
        self._spark, self._work, self._director = spark, work, director
        self._pipeline = blueprint.spec.name
        self._blueprint = pickle.dumps(blueprint, protocol=pickle.HIGHEST_PROTOCOL)
        self._generation = time.time_ns()
        self._mine: list[ReplaySegment] = []
        self._trouble = Backoff()
        self._fruitless = 0
        self._cancelled = False
        self._pid: int | None = None
        self._timeout = blueprint.spec.options.timeout
        self._throws = blueprint.spec.options.failure_mode == "THROW"
        self._stage: Stage = "crash"
        self._window_began: float | None = None

    def run(self) -> None:
        try:
            while not self._director.over.is_set() and self._get_work():
                self._step()
        except BaseException as error:  # noqa: BLE001 - raised by the replay, in the thread that wants to know
            self._director.end(error)
        finally:
            self._work.give_back(self._mine)

    @property
    def has_work(self) -> bool:
        return bool(self._mine)

    def cancel(self) -> None:
        """End the window under way, whatever its action is doing."""
        self._cancelled = True
        self._spark.cancel(self.name)

    def look(self, now: float) -> None:
        """An action that holds the interpreter answers to nobody: its process is ended from outside."""
        began = self._window_began
        if began is not None and now - began > _SECONDS + self._timeout + _PATIENCE and self._stage != "timeout":
            self._stage = "timeout"
            self._spark.cancel(self.name)
            self._end_worker()

    def close(self) -> None:
        """Actions flush and let go when they are closed."""
        unit = UnitRequest(next(_units), self._pipeline, self._generation, b"", [], 0.0, 0, closing=True)
        try:
            self._spark.run(WindowRequest(self.name, 0.0, [unit], detach=self._spark.is_local))
        except WindowLost as error:
            log.warning("the action was not closed", pipeline=self._pipeline, reason=error.message)

    def _get_work(self) -> bool:
        if not self._mine:
            taken = self._durably(self._work.take)
            if taken is None:
                return False
            self._mine = taken
        return True

    def _step(self) -> None:
        now = time.monotonic()
        ready = [stretch for stretch in self._mine if stretch.ready(now)]
        if not ready:
            self._director.over.wait(min((s.waits_until - now for s in self._mine), default=_SOON))
            return
        # One that a worker may die of goes alone, so that no other suffers from it.
        careful = [stretch for stretch in ready if stretch.careful][:1]
        self._window(careful or ready)
        ended = [stretch for stretch in self._mine if stretch.finished]
        self._mine = [stretch for stretch in self._mine if not stretch.finished]
        self._work.give_back(ended)

    # -- windows ---------------------------------------------------------------------------

    def _window(self, stretches: list[ReplaySegment]) -> None:
        unit = self._unit(stretches)
        try:
            outcome = self._outcome(unit)
        except WindowLost as error:
            self._lose(stretches, unit, error)
            return
        self._fruitless = 0
        self._take(stretches, outcome)
        self._heed(outcome.halt)
        counts = outcome.counts
        if outcome.halt is None and not (counts.read or counts.acted or counts.failed or counts.retried):
            # Nothing was due: a retry comes later, or an acknowledgement is awaited.
            waits = [waiting.due - time.monotonic() for stretch in stretches for waiting in stretch.waiting]
            self._director.over.wait(max(0.0, min(waits, default=_IDLE)))

    def _unit(self, stretches: list[ReplaySegment]) -> UnitRequest:
        records = None
        if stretches[0].records is not None:
            records = tuple(record for stretch in stretches for record in stretch.given())
        return UnitRequest(
            next(_units),
            self._pipeline,
            self._generation,
            self._blueprint,
            [stretch.assignment() for stretch in stretches],
            _SECONDS,
            min((stretch.few or _MANY for stretch in stretches), default=_MANY),
            bounds=Bounds({stretch.key: stretch.end for stretch in stretches}, records),
            careful=any(stretch.careful for stretch in stretches),
            rate=self._director.rate,
        )

    def _outcome(self, unit: UnitRequest) -> UnitOutcome:
        """The unit's outcome, however many windows its actions take."""
        window = self._run(_SECONDS, [unit])
        while (outcome := _of(window, unit.unit)) is None:
            if unit.unit not in window.running:
                raise WindowLost("the worker was replaced while an action was running")
            if self._cancelled:
                self._end_worker()
                raise WindowLost("the replay was cancelled while an action was running")
            window = self._run(_COLLECT, [])
        if window.tainted:
            # A thread hangs in the action; the process is of no more use.
            self._run(0.0, [], retiring=True)
            self._end_worker()
        return outcome

    def _run(self, seconds: float, units: list[UnitRequest], *, retiring: bool = False) -> WindowOutcome:
        notes = self._spark.journal(self.name)
        detach = self._spark.is_local
        self._window_began = time.monotonic()
        try:
            window = self._spark.run(WindowRequest(self.name, seconds, units, detach, notes, retiring))
        finally:
            self._window_began = None
        self._pid, self._stage = window.pid, "crash"
        return window

    def _end_worker(self) -> None:
        if self._spark.is_local and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    # -- outcomes --------------------------------------------------------------------------

    def _take(self, stretches: list[ReplaySegment], outcome: UnitOutcome) -> None:
        by_key = {stretch.key: stretch for stretch in stretches}
        before = [(stretch, stretch.open) for stretch in stretches]
        for part in outcome.partitions:
            if part.gone or part.out_of_range:
                what = "is gone" if part.gone else "no longer holds all of the range"
                raise ReplayHalted(f"the log of {part.topic}/{part.partition} {what}")
            by_key[part.key].advance(part)
        failures = []
        for failed in outcome.failures:
            stretch = by_key[failed.record.topic(), failed.record.partition()]
            # With THROW the event that failed still counts as open; here it has had its turn.
            stretch.finish(failed.record.offset())
            failures.append((stretch, failed))
        self._settle(before, failures)
        self._director.count(outcome.counts)

    def _settle(
        self, before: list[tuple[ReplaySegment, set[int]]], failures: list[tuple[ReplaySegment, FailedEvent]]
    ) -> None:
        failed = {(*stretch.key, failure.record.offset()) for stretch, failure in failures}
        done = [(s, {o for o in opened - s.open if (*s.key, o) not in failed}) for s, opened in before]
        self._durably(lambda: self._work.settle(done, failures))

    def _heed(self, halt: Halt | None) -> None:
        if halt is None:
            self._calm()
        elif halt.kind in ("outage", "error", "unknown"):
            if halt.kind == "error":
                # A fresh start of everything the worker holds of this pipeline.
                self._generation += 1
            self._wait(halt.reason, self._trouble, halt.retry_after)
        elif halt.kind == "build":
            raise PipelineUnusable(f"the pipeline cannot be built: {halt.reason}", hint="give its file with --config")
        elif halt.kind == "throw":
            raise ReplayHalted(f"stopped at an event that failed: {halt.reason}", hint=_THROW)
        else:
            raise ReplayHalted(f"stopped, because {halt.reason}", hint="options.breaker sets the limit")

    def _lose(self, stretches: list[ReplaySegment], unit: UnitRequest, error: WindowLost) -> None:
        """The worker died: L1: everything it had not returned is tried again, more carefully."""
        if self._spark.died:
            raise SparkDied("Spark's JVM has ended", hint="start the replay again: what is done is noted") from error
        notes = self._spark.journal(self.name)
        named = in_flight_log.read(notes).get(unit.unit, []) if notes else []
        for index, stretch in enumerate(stretches):
            ranges = [range(each.first, min(each.end, each.first + 10_000)) for each in named if each.index == index]
            if not (self._cancelled or isinstance(error, WindowRepeated)) and (ranges or not named):
                stretch.careful = stretch.careful and unit.careful
                stretch.suspect({offset for each in ranges for offset in each}, noted=notes is not None)
        if self._cancelled:
            return
        self._wait(f"a worker process died: {error.message}", self._trouble)
        buried = [self._bury(stretch, error.message) for stretch in stretches if stretch.killer is not None]
        self._fruitless = 0 if any(buried) else self._fruitless + 1
        if self._fruitless >= _FRUITLESS:
            raise ReplayHalted(f"worker processes die: {error.message}") from error

    def _bury(self, stretch: ReplaySegment, reason: str) -> bool:
        """The event of which a worker died twice has failed."""
        offset, stage = stretch.killer, self._stage
        if offset is None:
            return False
        failed = self._durably(lambda: self._work.failure_of(stretch, offset, stage, reason))
        stretch.killer, stretch.few, before = None, None, stretch.open
        stretch.finish(failed.record.offset() if failed else offset)
        if failed is None:
            return False
        self._settle([(stretch, before)], [(stretch, failed)])
        self._director.count(Counts(read=1, failed=1))
        if self._throws:
            raise ReplayHalted(f"stopped at an event that failed: {failed.failure.error}", hint=_THROW)
        return True

    # -- waiting ---------------------------------------------------------------------------

    def _durably(self, act: Callable[[], T]) -> T:
        """Do something with the store; while it is away, wait: what was acted on must be noted."""
        away = Backoff()
        while True:
            try:
                done = act()
            except Unavailable as error:
                if self._director.over.is_set():
                    raise
                self._wait(f"the store does not answer: {error}", away)
            else:
                if away.failures:
                    self._director.goes_on(self.name)
                return done

    def _wait(self, reason: str, trouble: Backoff, asked: float | None = None) -> None:
        self._director.waits(self.name, reason)
        self._director.over.wait(trouble.fail(asked))

    def _calm(self) -> None:
        if self._trouble.failures:
            self._trouble.succeed()
            self._director.goes_on(self.name)


def _of(window: WindowOutcome, unit: int) -> UnitOutcome | None:
    return next((each for each in window.units if each.unit == unit and each.status == "done"), None)
