"""Windows of a table pipeline, in the lane's process: what the driver is told of cursors and failures."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.core.clock import Clock
from penstock.core.event import Record
from penstock.engine.pipelines.blueprint import blueprint_of
from penstock.kafka.partition_reader import Batch
from penstock.pipeline import built_pipeline
from penstock.pipeline.messages import Assignment, UnitOutcome, UnitRequest
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import WindowRequest
from tests.unit.pipeline.table_unit import filtered, record, refused, table_spec
from tests.unit.pipeline.test_unit import Log

SECONDS = 1.0


class TimedLog(Log):
    """Simulated time: it passes while a unit waits for records, and only then."""

    now = 100.0

    def read(self, limit: int, timeout: float) -> Batch | None:
        batch = super().read(limit, 0.0)
        if batch is None:
            TimedLog.now += timeout
        return batch


CLOCK = Clock(monotonic=lambda: TimedLog.now)


class Scene:
    """A topic, a table and lanes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(built_pipeline, "PartitionReader", TimedLog)
        self._monkeypatch = monkeypatch
        self._blueprint = pickle.dumps(blueprint_of(table_spec(f"sqlite:///{folder}/t.db")))
        self._units = 0

    def log(self, *records: Record) -> None:
        self._monkeypatch.setattr(Log, "records", {("t", 0): list(records)}, raising=False)

    def run(self, lane: LaneProcess, a: Assignment) -> UnitOutcome:
        self._units += 1
        request = UnitRequest(self._units, "p", 1, self._blueprint, [a], SECONDS, 1_000)
        (outcome,) = lane.run(WindowRequest("l", SECONDS, [request], detach=False)).units
        return outcome


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_a_partition_whose_cursor_is_below_the_logs_start_moves_on(scene: Scene) -> None:
    lane = LaneProcess(CLOCK)
    scene.log(*map(record, range(3)))
    scene.run(lane, Assignment("t", 0, 1, 0, topic_id="cluster/t"))
    scene.log(*map(record, range(9)))
    (part,) = scene.run(LaneProcess(CLOCK), Assignment("t", 0, 2, 5, topic_id="cluster/t", log_start=5)).partitions
    assert (part.next_offset, part.cursor_gap) == (9, (3, 5))


def test_a_dedicated_pipeline_that_moves_lanes_and_back_does_not_fence_itself(scene: Scene) -> None:
    one, two = LaneProcess(CLOCK), LaneProcess(CLOCK)
    for lane, end in ((one, 3), (two, 6), (one, 9)):
        scene.log(*map(record, range(end)))
        outcome = scene.run(lane, Assignment("t", 0, 7, end - 3, topic_id="cluster/t"))
        assert outcome.halt is None
        assert [part.next_offset for part in outcome.partitions] == [end]


def test_a_failure_is_reported_by_one_outcome_of_those_that_the_driver_accepts(scene: Scene) -> None:
    lane = LaneProcess(CLOCK)
    log = [record(0), refused(1), filtered(2)]
    scene.log(*log)
    first = scene.run(lane, Assignment("t", 0, 1, 0, topic_id="cluster/t"))
    assert [each.record.offset() for each in first.failures] == [1]
    again = scene.run(lane, Assignment("t", 0, 1, 0, topic_id="cluster/t"))
    assert [each.record.offset() for each in again.failures] == [1], "the driver went on from before it"
    scene.log(*log, record(3))
    accepted = scene.run(lane, Assignment("t", 0, 1, 3, topic_id="cluster/t"))
    assert accepted.failures == []
    assert [part.next_offset for part in accepted.partitions] == [4]
