"""Units over a log: windows that come too late, and partitions that wait beside others that do not."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.errors import Unavailable
from penstock.core.event import Record
from penstock.decode.json import JsonDecoder
from penstock.engine.pipelines.blueprint import blueprint_of
from penstock.kafka.partition_reader import Batch, Trouble
from penstock.pipeline import built_pipeline as pipeline
from penstock.pipeline.messages import Assignment, Partition, UnitOutcome, UnitRequest
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import WindowRequest

ACT = """
def act(event):
    if event.event.get("fails"):
        raise RuntimeError("not now")
    with open({out!r}, "a") as out:
        out.write(f"{{event.event['n']}} ")
"""
SECONDS = 0.2


class Log:
    """Records in memory, as a reader gives them; those of the last partition first."""

    trouble = Trouble()
    exhausted = False
    records: Mapping[Partition, list[Record]]

    def __init__(self, *_: Any, **__: Any) -> None:
        self._at: dict[Partition, int] = {}
        self._held: set[Partition] = set()

    def place(self, wanted: Mapping[Partition, int]) -> None:
        self._at = dict(wanted)

    def hold(self, partitions: set[Partition]) -> None:
        self._held = partitions

    def read(self, limit: int, timeout: float) -> Batch | None:
        for place in sorted(set(self._at) - self._held, reverse=True):
            start = self._at[place]
            records = self.records[place][start : start + limit]
            if records:
                self._at[place] += len(records)
                return Batch(records, {place: start}, {place: self._at[place]})
        time.sleep(timeout)
        return None

    def at_end(self, partition: Partition) -> bool:
        return self._at[partition] == len(self.records[partition])

    def position(self, partition: Partition) -> int:
        return self._at[partition]

    def close(self) -> None: ...


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


@pytest.fixture
def blueprint(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    (tmp_path / "steps.py").write_text(ACT.format(out=str(out)))
    spec = PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {"config": {"topics": ["t"], "format": "json", "connection": {"bootstrap": "127.0.0.1:1"}}},
            "action": {"type": "python", "config": {"callable": f"{tmp_path}/steps.py:act"}},
            "options": {"retry": {"attempts": 1000, "backoff": "50ms", "max_backoff": "50ms"}},
        }
    )
    monkeypatch.setattr(pipeline, "PartitionReader", Log)
    return pickle.dumps(blueprint_of(spec))


def records(partition: int, values: Iterable[bytes]) -> list[Record]:
    return [Record("t", partition, at, b"k", value, None, 1, 1) for at, value in enumerate(values)]


def test_a_window_that_was_planned_before_a_freeze_does_nothing(
    blueprint: bytes, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered = records(0, (b'{"n": %d}' % n for n in range(3)))
    monkeypatch.setattr(Log, "records", {("t", 0): numbered}, raising=False)
    lane = LaneProcess()

    def run(number: int, not_after: float) -> UnitOutcome:
        request = UnitRequest(number, "p", 1, blueprint, [Assignment("t", 0, 1, 0)], SECONDS, 1_000)
        (outcome,) = lane.run(WindowRequest("l", SECONDS, [request], detach=False, not_after=not_after)).units
        return outcome

    first = run(1, time.monotonic() - 0.1)
    assert (first.counts.acted, [part.next_offset for part in first.partitions]) == (0, [0])
    assert not out.exists()
    second = run(2, time.monotonic() + 60)
    assert (second.counts.acted, [part.next_offset for part in second.partitions]) == (3, [3])
    assert out.read_text().split() == ["0", "1", "2"]


@pytest.mark.parametrize("most", [4, 6])
def test_a_partition_that_waits_leaves_room_for_the_others(
    blueprint: bytes, out: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    waits = records(1, [b'{"fails": true}', *[b'{"n": "behind"}'] * 20])
    goes_on = records(0, (b'{"n": %d}' % n for n in range(5)))
    monkeypatch.setattr(Log, "records", {("t", 0): goes_on, ("t", 1): waits}, raising=False)
    lane, assignments = LaneProcess(), [Assignment("t", partition, 1, 0) for partition in (0, 1)]
    for number in range(1, 8):
        request = UnitRequest(number, "p", 1, blueprint, assignments, SECONDS, most)
        (outcome,) = lane.run(WindowRequest("l", SECONDS, [request], detach=False)).units
        assignments = [
            Assignment(part.topic, part.partition, 1, part.next_offset, part.pending, part.retries)
            for part in outcome.partitions
        ]
    assert {part.partition: part.next_offset for part in assignments} == {0: 5, 1: 0}
    assert out.read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_worker_that_wants_to_be_told_says_no_more_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    """After each outage that kept a pipeline from being made, it is asked for without its blueprint once."""
    request = UnitRequest(1, "p", 1, b"", [Assignment("t", 0, 1, 0)], SECONDS, 1_000)
    (outcome,) = LaneProcess().run(WindowRequest("l", SECONDS, [request], detach=False)).units
    assert outcome.halt is not None
    assert outcome.halt.kind == "unknown"
    assert capfd.readouterr().err == ""


def test_what_an_outage_blocks_is_not_counted_as_read(blueprint: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again with every trial: hours without a registry would make millions of a few events."""
    monkeypatch.setattr(Log, "records", {("t", 0): records(0, (b'{"n": %d}' % n for n in range(3)))}, raising=False)
    lane = LaneProcess()

    def run(number: int) -> UnitOutcome:
        request = UnitRequest(number, "p", 1, blueprint, [Assignment("t", 0, 1, 0)], SECONDS, 1_000)
        (outcome,) = lane.run(WindowRequest("l", SECONDS, [request], detach=False)).units
        return outcome

    def away(*_: Any) -> None:
        raise Unavailable("the registry is away")

    with monkeypatch.context() as outage:
        outage.setattr(JsonDecoder, "decode", away)
        held = run(1)
    (part,) = held.partitions
    assert (part.blocked_by, held.counts.read, part.next_offset) == ("the registry is away", 0, 0)
    assert part.blocked_for
    after = run(2)
    assert (after.counts.read, after.counts.acted) == (3, 3)
