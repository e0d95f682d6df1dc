"""A replay's lanes, without Spark, broker and store: what is done counts only when a worker has returned it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Failure, Stage
from penstock.core.event import Record
from penstock.engine.replay import replay as module
from penstock.engine.replay.replay import Replay, ReplayLane
from penstock.engine.replay.work import ReplayHalted, ReplaySegment, ReplayWork
from penstock.engine.spark.context import WindowLost
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import Account, Counts, FailedEvent, PartitionOutcome, UnitOutcome, UnitRequest
from penstock.worker.protocol import WindowOutcome, WindowRequest
from tests.unit.engine.lanes.doubles import Backend, Time

SPEC = {
    "name": "p",
    "source": {"config": {"topics": ["t"], "format": "json"}},
    "action": {"type": "hello_world"},
}


def failure(record: Record, stage: Stage = "act") -> FailedEvent:
    text = {"error_code": "x", "error_class": "X", "error": "x", "traceback": "", "fingerprint": ""}
    return FailedEvent(record, Failure(stage=stage, **text, attempts=1, first_failed_at=0, last_failed_at=0))


class Letters(ReplayWork):
    """Given records of one partition, and what became of them."""

    def __init__(self, *offsets: int) -> None:
        records = {offset: Record("t", 0, offset) for offset in offsets}
        self.left = [ReplaySegment("t", 0, "id", offsets[0], end=offsets[-1] + 1, records=records)]
        self.replayed: list[int] = []
        self.failed: dict[int, str] = {}

    def take(self) -> list[ReplaySegment] | None:
        taken, self.left = self.left, []
        return taken or None

    def settle(
        self, done: list[tuple[ReplaySegment, set[int]]], failures: list[tuple[ReplaySegment, FailedEvent]]
    ) -> None:
        self.replayed += sorted(offset for _, offsets in done for offset in offsets)
        self.failed |= {failed.record.offset(): failed.failure.stage for _, failed in failures}

    def give_back(self, segments: Iterable[ReplaySegment]) -> None: ...

    def failure_of(self, segment: ReplaySegment, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        record = segment.record_from(offset)
        return None if record is None else failure(record, stage)


class Bench:
    """One lane whose worker acts on the records of a unit in their order."""

    def __init__(self, *offsets: int, options: dict[str, Any] | None = None) -> None:
        self.time, self.work = Time(), Letters(*offsets)
        self.backend = Backend(self.time)
        self.backend.cores = 1
        self.backend.during, self.backend.answer = self._act, self._returned
        self.raises: set[int] = set()
        self.kills: set[int] = set()
        self.acted: list[int] = []
        self.units: list[UnitRequest] = []
        spec = PipelineSpec.model_validate(SPEC | {"options": options or {}})
        self.replay = Replay(self.backend, spec, self.work, clock=self.time.clock, threads=self.time)

    @property
    def lane(self) -> ReplayLane:
        return self.replay._lanes[0]

    def _act(self, request: WindowRequest) -> None:
        for unit in request.units:
            self.units.append(unit)
            assert unit.bounds is not None
            for record in unit.bounds.records or ():
                if record.offset() in self.kills:
                    self.backend.in_flight[request.lane] = {
                        unit.unit: [InFlight(0, record.offset(), record.offset() + 1)]
                    }
                    raise WindowLost("Python worker exited unexpectedly (crashed)")
                self.acted.append(record.offset())

    def _returned(self, request: WindowRequest, outcome: WindowOutcome) -> WindowOutcome:
        for unit, done in zip(request.units, outcome.units, strict=True):
            self._complete(unit, done)
        return outcome

    def _complete(self, unit: UnitRequest, done: UnitOutcome) -> None:
        records = unit.bounds.records or () if unit.bounds else ()
        if records:
            (given,) = unit.assignments
            done.failures = [failure(record) for record in records if record.offset() in self.raises]
            failed = len(done.failures)
            account = Account(given.next_offset, 0, len(records), acted=len(records) - failed, failed=failed)
            end = max(records[-1].offset() + 1, given.next_offset)
            done.partitions = [PartitionOutcome("t", 0, 0, end, topic_id="id", account=account)]
            done.counts = Counts(read=len(records), failed=len(done.failures))

    def run(self) -> None:
        self.lane.run()
        if self.replay._error is not None:
            raise self.replay._error


def test_what_was_returned_is_replayed_and_what_failed_has_failed() -> None:
    bench = Bench(3, 5, 9)
    bench.raises = {5}
    bench.run()
    assert (bench.work.replayed, bench.work.failed) == ([3, 9], {5: "act"})
    assert bench.acted == [3, 5, 9]


def test_f03_a_dead_letter_that_fails_before_another_kills_the_worker_is_not_taken_for_replayed() -> None:
    bench = Bench(3, 5, 9, 12)
    bench.raises, bench.kills = {3}, {9}
    bench.run()
    assert bench.work.failed == {3: "act", 9: "crash"}
    assert sorted(bench.work.replayed) == [5, 12]
    assert [unit.careful for unit in bench.units] == [False, True, True, False]
    assert bench.units[2].bounds is not None
    assert [record.offset() for record in bench.units[2].bounds.records or ()] == [3, 5], "what lies before the killer"


def test_a_worker_that_dies_of_no_event_makes_the_replay_wait_and_give_up_in_the_end() -> None:
    bench = Bench(3)
    deaths: list[float] = []

    def die(_: WindowRequest) -> None:
        deaths.append(bench.time.now)
        raise WindowLost("it does not start")

    bench.backend.during = die
    with pytest.raises(ReplayHalted, match="worker processes die"):
        bench.run()
    assert len(deaths) == module._FRUITLESS
    assert deaths[-1] - deaths[-2] > 10.0
    assert (bench.work.replayed, bench.work.failed) == ([], {})


def test_an_action_that_holds_its_process_is_ended_and_fails_with_the_stage_timeout() -> None:
    bench = Bench(3, 5, options={"timeout": "2s"})

    def hold(request: WindowRequest) -> None:
        for unit in request.units:
            bench.units.append(unit)
            if unit.bounds and any(record.offset() == 3 for record in unit.bounds.records or ()):
                bench.backend.in_flight[request.lane] = {unit.unit: [InFlight(0, 3, 4)]}
                bench.time._pass(2.0 + 2.0 + 9.0)
                bench.lane.end_overdue()
                assert bench.backend.processes[request.lane].pid in bench.backend.alive
                bench.time._pass(2.0)
                bench.lane.end_overdue()

    bench.backend.during = hold
    bench.run()
    assert (bench.work.replayed, bench.work.failed) == ([5], {3: "timeout"})


def test_a_cancelled_replay_blames_no_event() -> None:
    bench = Bench(3)

    def cancel(request: WindowRequest) -> None:
        (unit,) = request.units
        bench.backend.in_flight[request.lane] = {unit.unit: [InFlight(0, 3, 4)]}
        bench.replay.over.set()
        bench.lane.cancel()

    bench.backend.during = cancel
    bench.run()
    assert (bench.work.replayed, bench.work.failed) == ([], {})


def test_an_action_that_takes_many_windows_is_waited_for() -> None:
    bench = Bench(3)
    bench.backend.slow = {"p"}
    windows: list[WindowRequest] = []

    def later(request: WindowRequest, outcome: WindowOutcome) -> WindowOutcome:
        windows.append(request)
        if len(windows) == 4:
            bench.backend.slow = set()
        for done in outcome.units:
            if done.status == "done":
                bench._complete(bench.units[0], done)
        return outcome

    bench.backend.answer = later
    bench.run()
    assert len(windows) == 5
    assert bench.work.replayed == [3]
    assert bench.acted == [3]


def test_a_worker_with_a_hung_thread_is_replaced() -> None:
    bench = Bench(3)
    right = bench.backend.answer

    def tainted(request: WindowRequest, outcome: WindowOutcome) -> WindowOutcome:
        outcome.tainted = True
        answered: WindowOutcome = right(request, outcome)
        return answered

    bench.backend.answer = tainted
    bench.run()
    assert bench.backend.requests[-1].retiring
    assert len(bench.backend.killed) == 1
    assert bench.work.replayed == [3]


def test_an_outcome_that_does_not_add_up_is_not_used_and_the_range_is_repeated() -> None:
    bench = Bench(3, 5)
    right, times = bench.backend.answer, []

    def wrong_once(request: WindowRequest, outcome: WindowOutcome) -> WindowOutcome:
        right(request, outcome)
        if not times:
            times.append(1)
            outcome.units[0].partitions[0].account.acted -= 1
        return outcome

    bench.backend.answer = wrong_once
    bench.run()
    assert bench.work.replayed == [3, 5]
    assert bench.acted == [3, 5, 3, 5]
