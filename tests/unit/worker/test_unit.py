"""Units of a window that comes to its worker too late."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.event import Record
from penstock.engine.blueprint import blueprint_of
from penstock.kafka.reader import Batch, Trouble
from penstock.worker import pipeline
from penstock.worker.lane import Lane
from penstock.worker.protocol import Assignment, Partition, UnitOutcome, UnitRequest, WindowRequest

ACT = """
def act(event):
    with open({out!r}, "a") as out:
        out.write(f"{{event.event['n']}} ")
"""
RECORDS = [Record("t", 0, n, b"k", b'{"n": %d}' % n, None, 1, 1) for n in range(3)]
SECONDS = 0.2


class Log:
    """Three records, as a reader gives them."""

    trouble = Trouble()
    exhausted = False

    def __init__(self, *_: Any, **__: Any) -> None:
        self._at: dict[Partition, int] = {}

    def place(self, wanted: Mapping[Partition, int]) -> None:
        self._at = dict(wanted)

    def hold(self, partitions: set[Partition]) -> None: ...

    def read(self, limit: int, timeout: float) -> Batch | None:
        start = self._at["t", 0]
        if start == len(RECORDS):
            time.sleep(timeout)
        records = list(RECORDS[start : start + limit])
        self._at["t", 0] = start + len(records)
        return Batch(records, {("t", 0): start}, dict(self._at)) if records else None

    def at_end(self, partition: Partition) -> bool:
        return self._at[partition] == len(RECORDS)

    def position(self, partition: Partition) -> int:
        return self._at[partition]

    def close(self) -> None: ...


def test_a_window_that_was_planned_before_a_freeze_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.txt"
    (tmp_path / "steps.py").write_text(ACT.format(out=str(out)))
    connection = {"bootstrap": "127.0.0.1:1"}
    spec = PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {"config": {"topics": ["t"], "format": "json", "connection": connection}},
            "action": {"type": "python", "config": {"callable": f"{tmp_path}/steps.py:act"}},
        }
    )
    monkeypatch.setattr(pipeline, "Reader", Log)
    blueprint, lane = pickle.dumps(blueprint_of(spec)), Lane()

    def run(number: int, not_after: float) -> UnitOutcome:
        request = UnitRequest(number, "p", 1, blueprint, [Assignment("t", 0, 1, 0)], SECONDS, 1_000)
        (outcome,) = lane.run(WindowRequest("l", SECONDS, [request], detach=False, not_after=not_after)).units
        return outcome

    first = run(1, time.monotonic() - 0.1)
    assert (first.counts.acted, [part.frontier for part in first.partitions]) == (0, [0])
    assert not out.exists()
    second = run(2, time.monotonic() + 60)
    assert (second.counts.acted, [part.frontier for part in second.partitions]) == (3, [3])
    assert out.read_text().split() == ["0", "1", "2"]
