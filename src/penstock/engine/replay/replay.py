"""The bounded driver: works segments of partitions through in windows, outside of any consumer group."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Protocol, TypeVar

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.errors import Unavailable
from penstock.core.threads import THREADS, Event, Thread, Threads
from penstock.engine.lanes.lane_worker import LaneWorker, LostUnits, WindowBackend, WindowResult
from penstock.engine.pipelines.blueprint import blueprint_of, parallel_safe
from penstock.engine.replay.work import (
    GarbledPartition,
    PipelineUnusable,
    ReplayHalted,
    ReplaySegment,
    ReplayWork,
)
from penstock.engine.spark.context import SparkDied
from penstock.pipeline.accounting import check_account
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import Blueprint, Bounds, Counts, FailedEvent, Halt, Partition, UnitOutcome, UnitRequest

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
_LATE = 5.0
"""Seconds by which a window may be late, besides its action's time-out."""
_FRUITLESS = 12
"""Windows in a row that are lost without an event to blame, after which the replay gives up."""
_GRACE = 10.0
"""Seconds after which a cancelled replay no longer waits for an action."""
_LOOK_EVERY = 0.1
_THROW = "failure_mode is THROW"
_units = itertools.count(1)
"""Replays of one process share their lanes' processes, which tell units apart by number."""

T = TypeVar("T")


class ReplayBackend(WindowBackend, Protocol):
    """Spark, as far as replays need it."""

    @property
    def cores(self) -> int: ...

    @property
    def died(self) -> bool:
        """No window will ever run again."""
        ...


def lane_names(count: int) -> list[str]:
    return [f"replay-{n}" for n in range(count)]


def lane_count(spec: PipelineSpec, cores: int) -> int:
    """One for each core, unless the action may only exist once, or as often as the spec says."""
    return max(1, cores if parallel_safe(spec) else min(cores, spec.options.parallelism or 1))


class Replay:
    """One pipeline's bounded run."""

    def __init__(
        self,
        backend: ReplayBackend,
        spec: PipelineSpec,
        work: ReplayWork,
        *,
        rate: float | None = None,
        say: Callable[[str | None], None] = lambda _: None,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self.counts = Counts()
        self.over = threads.event()
        """Set: begin nothing more."""
        limits = [each for each in (rate, spec.options.rate_limit) if each is not None]
        self._rate = min(limits, default=None)
        self._clock, self._threads = clock, threads
        self._lock = threads.lock()
        self._say, self._waiting = say, dict[str, str]()
        self._error: BaseException | None = None
        blueprint = blueprint_of(spec)
        self._lanes = [
            ReplayLane(name, backend, blueprint, work, self, clock=clock, threads=threads)
            for name in lane_names(lane_count(spec, backend.cores))
        ]

    def run(self, stop: Event) -> None:
        """Work until everything is done, `stop` is set, or it cannot go on, which is raised."""
        running = [
            self._threads.start(lane.name, lane.run, owner="Replay", ends="when there is no more work")
            for lane in self._lanes
        ]
        cancel_at: float | None = None
        while any(thread.is_alive() for thread in running):
            self._await(running)
            for lane in self._lanes:
                lane.end_overdue()
            if stop.is_set() and cancel_at is None:
                self.over.set()
                cancel_at = self._clock.monotonic() + _GRACE
            if cancel_at is not None and self._clock.monotonic() >= cancel_at:
                cancel_at = self._clock.monotonic() + _GRACE
                for lane in self._lanes:
                    lane.cancel()
        for lane in self._lanes:
            lane.close()
        if self._error is not None:
            raise self._error

    def _await(self, running: list[Thread]) -> None:
        alive = next((thread for thread in running if thread.is_alive()), None)
        if alive is not None:
            alive.join(_LOOK_EVERY)

    # -- what lanes report -----------------------------------------------------------------

    @property
    def rate(self) -> float | None:
        """The share of a lane that has work: events per second."""
        at_work = sum(lane.has_work for lane in self._lanes)
        return None if self._rate is None else self._rate / max(1, at_work)

    def fail(self, error: BaseException) -> None:
        """It cannot go on."""
        with self._lock:
            self._error = self._error or error
        self.over.set()

    def count(self, counts: Counts) -> None:
        with self._lock:
            self.counts.add(counts)

    def report_waiting(self, lane: str, reason: str) -> None:
        """A lane waits for something outside."""
        with self._lock:
            is_new = self._waiting.get(lane) != reason
            self._waiting[lane] = reason
        if is_new:
            log.warning("replay waits", lane=lane, reason=reason)
            self._say(reason)

    def report_going_on(self, lane: str) -> None:
        with self._lock:
            calm = self._waiting.pop(lane, None) is not None and not self._waiting
        if calm:
            self._say(None)


class ReplayLane:
    """One lane of a replay: windows over the segments it took, until there are no more."""

    def __init__(
        self,
        name: str,
        backend: ReplayBackend,
        blueprint: Blueprint,
        work: ReplayWork,
        replay: Replay,
        *,
        clock: Clock,
        threads: Threads,
    ) -> None:
        self.name = name
        self._backend, self._work, self._replay, self._clock = backend, work, replay, clock
        self._worker = LaneWorker(name, backend, clock=clock, threads=threads)
        self._pipeline = blueprint.spec.name
        self._blueprint = pickle.dumps(blueprint, protocol=pickle.HIGHEST_PROTOCOL)
        # Unique over replays: executors keep what they built by name and revision.
        self._revision = int(clock.time() * 1_000_000_000)
        self._mine: list[ReplaySegment] = []
        self._trouble = Backoff(clock=clock)
        self._fruitless = 0
        self._cancelled = False
        self._timeout = blueprint.spec.options.timeout
        self._throws = blueprint.spec.options.failure_mode == "THROW"
        self._killed: dict[int, tuple[Stage, str]] = {}
        """How and why workers died of killers, by the id of their segment."""

    def run(self) -> None:
        """The lane's thread."""
        try:
            while not self._replay.over.is_set() and self._get_work():
                self._step()
        except BaseException as error:  # noqa: BLE001 - raised by `Replay.run`
            self._replay.fail(error)
        finally:
            self._work.give_back(self._mine)

    @property
    def has_work(self) -> bool:
        return bool(self._mine)

    def cancel(self) -> None:
        """End the window in flight, whatever its action is doing. Blocks for seconds."""
        self._cancelled = True
        self._worker.end("cancelled")

    def end_overdue(self) -> None:
        """Kill the process of an action that holds the interpreter. Blocks for seconds."""
        if self._worker.overdue:
            self._worker.end("overdue")

    def close(self) -> None:
        """Close the action, which may flush then."""
        unit = UnitRequest(next(_units), self._pipeline, self._revision, b"", [], 0.0, 0, closing=True)
        result = self._run(0.0, [unit])
        if result.outcome is None and result.lost is not None:
            log.warning("the action was not closed", pipeline=self._pipeline, reason=result.lost.reason)

    def _get_work(self) -> bool:
        if not self._mine:
            taken = self._durably(self._work.take)
            if taken is None:
                return False
            self._mine = taken
        return True

    def _step(self) -> None:
        now = self._clock.monotonic()
        for segment in self._mine:
            if segment.at_killer:
                self._fail_killer(segment)
        ready = [segment for segment in self._mine if not segment.finished and segment.ready(now)]
        if ready:
            # One that a worker may die of goes alone, so that no other suffers from it.
            self._window([segment for segment in ready if segment.isolated][:1] or ready)
        elif not any(segment.finished for segment in self._mine):
            self._replay.over.wait(min((s.waits_until - now for s in self._mine), default=_SOON))
        ended = [segment for segment in self._mine if segment.finished]
        self._mine = [segment for segment in self._mine if not segment.finished]
        self._work.give_back(ended)

    # -- windows ---------------------------------------------------------------------------

    def _window(self, segments: list[ReplaySegment]) -> None:
        unit = self._unit(segments)
        outcome = self._outcome_of(unit)
        if isinstance(outcome, LostUnits):
            self._lose(segments, unit, outcome)
            return
        try:
            self._accept(segments, unit, outcome)
        except GarbledPartition as error:
            # Nothing of it is used: the range is repeated.
            log.error("an outcome does not add up", pipeline=self._pipeline, lane=self.name, reason=str(error))
            self._lose(segments, unit, LostUnits(frozenset({unit.unit}), {}, None, error.message))
            return
        self._fruitless = 0
        self._heed(outcome.halt)
        counts = outcome.counts
        if outcome.halt is None and not (counts.read or counts.acted or counts.failed or counts.retried):
            # Nothing was due: a retry comes later, or an acknowledgement is awaited.
            now = self._clock.monotonic()
            waits = [due - now for segment in segments for _, due in segment.retries]
            self._replay.over.wait(max(0.0, min(waits, default=_IDLE)))

    def _unit(self, segments: list[ReplaySegment]) -> UnitRequest:
        records = None
        if segments[0].records is not None:
            records = tuple(record for segment in segments for record in segment.given())
        return UnitRequest(
            next(_units),
            self._pipeline,
            self._revision,
            self._blueprint,
            [segment.assignment() for segment in segments],
            _SECONDS,
            min((segment.few or _MANY for segment in segments), default=_MANY),
            bounds=Bounds({segment.key: segment.stop_at for segment in segments}, records),
            careful=any(segment.isolated for segment in segments),
            rate=self._replay.rate,
        )

    def _outcome_of(self, unit: UnitRequest) -> UnitOutcome | LostUnits:
        """The unit's outcome, however many windows its actions take."""
        result = self._run(_SECONDS, [unit])
        while True:
            if result.lost is not None and unit.unit in result.lost.units:
                return result.lost
            units = result.outcome.units if result.outcome is not None else []
            done = next((each for each in units if each.unit == unit.unit and each.status == "done"), None)
            if done is not None:
                break
            if self._cancelled:
                self._worker.end("cancelled")
            result = self._run(_COLLECT, [])
        if self._worker.tainted:
            # A thread hangs in the action; the process is of no more use.
            self._run(0.0, [], retiring=True)
            self._worker.recycle()
        return done

    def _run(self, seconds: float, units: list[UnitRequest], *, retiring: bool = False) -> WindowResult:
        request = self._worker.request(seconds, units, retiring=retiring)
        self._worker.begin(request, self._timeout + _LATE)
        return self._worker.run(request)

    # -- outcomes --------------------------------------------------------------------------

    def _accept(self, segments: list[ReplaySegment], unit: UnitRequest, outcome: UnitOutcome) -> None:
        by_key = {segment.key: segment for segment in segments}
        before = [(segment, segment.open) for segment in segments]
        self._check(unit, outcome)
        for part in outcome.partitions:
            if part.gone or part.out_of_range:
                what = "is gone" if part.gone else "no longer holds all of the range"
                raise ReplayHalted(f"the log of {part.topic}/{part.partition} {what}")
            by_key[part.key].advance(part)
        failures = []
        for failed in outcome.failures:
            segment = by_key[failed.record.topic(), failed.record.partition()]
            if segment.records is not None or failed.record.offset() in segment.pending:
                # With THROW the event that failed still counts as unfinished; here it has had its turn.
                segment.finish(failed.record.offset())
            failures.append((segment, failed))
        self._settle(before, failures)
        self._replay.count(outcome.counts)

    @staticmethod
    def _check(unit: UnitRequest, outcome: UnitOutcome) -> None:
        """L2: refuse an outcome that does not account for every offset of its unit, before any of it is used."""
        given = {assignment.key: assignment for assignment in unit.assignments}
        failed: dict[Partition, list[int]] = {key: [] for key in given}
        for each in outcome.failures:
            place = (each.record.topic(), each.record.partition())
            if place not in given:
                raise GarbledPartition("a failure is about another partition", received=place)
            failed[place].append(each.record.offset())
        if sorted(part.key for part in outcome.partitions) != sorted(given):
            raise GarbledPartition("the outcome is about other partitions", received=len(outcome.partitions))
        throws = outcome.halt is not None and outcome.halt.kind == "throw"
        for part in outcome.partitions:
            if part.gone or part.out_of_range:
                continue
            problem = check_account(given[part.key], part, failed[part.key], throws=throws)
            if problem is not None:
                raise GarbledPartition(f"{part.topic}/{part.partition}: {problem}")

    def _settle(
        self, before: list[tuple[ReplaySegment, set[int]]], failures: list[tuple[ReplaySegment, FailedEvent]]
    ) -> None:
        """Mark as done what an outcome has finished. L1: there is no other way to become done."""
        failed = {(*segment.key, failure.record.offset()) for segment, failure in failures}
        done = [(s, {o for o in opened - s.open if (*s.key, o) not in failed}) for s, opened in before]
        self._durably(lambda: self._work.settle(done, failures))

    def _heed(self, halt: Halt | None) -> None:
        if halt is None:
            if self._trouble.failures:
                self._trouble.succeed()
                self._replay.report_going_on(self.name)
        elif halt.kind in ("outage", "error", "unknown"):
            if halt.kind == "error":
                # A fresh start of everything the worker holds of this pipeline.
                self._revision += 1
            self._wait(halt.reason, self._trouble, halt.retry_after)
        elif halt.kind == "build":
            raise PipelineUnusable(f"the pipeline cannot be built: {halt.reason}", hint="give its file with --config")
        elif halt.kind == "throw":
            raise ReplayHalted(f"stopped at an event that failed: {halt.reason}", hint=_THROW)
        else:
            raise ReplayHalted(f"stopped, because {halt.reason}", hint="options.breaker sets the limit")

    # -- deaths ----------------------------------------------------------------------------

    def _lose(self, segments: list[ReplaySegment], unit: UnitRequest, lost: LostUnits) -> None:
        """The worker died. L1: everything that it had not returned is repeated; what it was working on runs alone."""
        if self._backend.died:
            raise SparkDied("Spark's JVM has ended", hint="start the replay again: what is done is noted")
        if lost.stage is not None:
            self._suspect(segments, unit, lost)
        if self._cancelled:
            return
        self._wait(f"a worker process died: {lost.reason}", self._trouble)
        if killed := [segment for segment in segments if segment.killer is not None]:
            self._fruitless = 0
            self._killed |= {id(segment): (lost.stage or "crash", lost.reason) for segment in killed}
        else:
            self._fruitless += 1
        if self._fruitless >= _FRUITLESS:
            raise ReplayHalted(f"worker processes die: {lost.reason}")

    @staticmethod
    def _suspect(segments: list[ReplaySegment], unit: UnitRequest, lost: LostUnits) -> None:
        named: list[InFlight] = (lost.suspects or {}).get(unit.unit, [])
        for index, segment in enumerate(segments):
            mine = {offset for at in named if at.index == index for offset in range(at.first, at.end)}
            # Where the log names events of another segment, this one is not concerned.
            if mine or not named:
                segment.suspect(mine, alone=unit.careful, logged=lost.suspects is not None)

    def _fail_killer(self, segment: ReplaySegment) -> None:
        """The event of which a worker died twice has failed."""
        offset, (stage, reason) = segment.killer, self._killed.pop(id(segment), ("crash", ""))
        if offset is None:
            return
        failed = self._durably(lambda: self._work.failure_of(segment, offset, stage, reason))
        before = segment.open
        segment.finish_killer(failed.record.offset() if failed else offset)
        if failed is None:
            return
        self._settle([(segment, before)], [(segment, failed)])
        self._replay.count(Counts(read=1, failed=1))
        if self._throws:
            raise ReplayHalted(f"stopped at an event that failed: {failed.failure.error}", hint=_THROW)

    # -- waiting ---------------------------------------------------------------------------

    def _durably(self, act: Callable[[], T]) -> T:
        """Do something with the store; while it does not answer, wait: what was acted on must be noted."""
        away = Backoff(clock=self._clock)
        while True:
            try:
                done = act()
            except Unavailable as error:
                if self._replay.over.is_set():
                    raise
                self._wait(f"the store does not answer: {error}", away)
            else:
                if away.failures:
                    self._replay.report_going_on(self.name)
                return done

    def _wait(self, reason: str, trouble: Backoff, asked: float | None = None) -> None:
        self._replay.report_waiting(self.name, reason)
        self._replay.over.wait(trouble.fail(asked))
