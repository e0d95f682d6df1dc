"""A lane's process from window to window: slots of the in-flight log, units that stop or are left behind, the end."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline import in_flight_log
from penstock.pipeline.in_flight_log import InFlight, request_stop
from penstock.worker import window as window_module
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import WindowRequest, unpacked
from penstock.worker.window import run_window
from tests.unit.pipeline.rig import Rig, World, offset_of, rig_up, spec
from tests.unit.pipeline.test_unit_findings import wait_for

DEADLINE = 20.0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return rig_up(monkeypatch)


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> LaneProcess:
    made = LaneProcess()
    monkeypatch.setattr(window_module, "_lane", made)
    return made


def requests(*windows: WindowRequest) -> Iterator[bytes]:
    return iter([pickle.dumps(window) for window in windows])


@pytest.mark.usefixtures("lane")
def test_f18_a_retiring_window_leaves_its_input_so_that_spark_destroys_the_worker() -> None:
    given = requests(WindowRequest("l", 0.0, [], detach=False, retiring=True), WindowRequest("l", 0.0, [], False))
    assert [unpacked(answer).lane for answer in run_window(given)] == ["l"]
    assert next(given, None) is not None


@pytest.mark.usefixtures("lane")
def test_any_other_window_drains_its_input() -> None:
    given = requests(WindowRequest("l", 0.0, [], detach=False))
    assert len(list(run_window(given))) == 1
    assert next(given, None) is None


def test_a_detached_unit_keeps_its_slots_and_can_be_stopped_between_windows(world: World, tmp_path: Path) -> None:
    path, goes_on, acted = str(tmp_path / "log"), threading.Event(), []

    def act(event: Any) -> None:
        acted.append(offset_of(event))
        assert goes_on.wait(DEADLINE)

    world.fill(0, range(5))
    world.act = act
    rig = Rig(spec())
    request = rig.request(0.05)
    (left,) = rig.window(request, seconds=0.05, detach=True, in_flight_log=path).units
    assert left.status == "detached"
    rig.window(seconds=0.0, detach=True, in_flight_log=path)
    assert in_flight_log.read(path) == {request.unit: [InFlight(0, 0, 1)]}
    assert request_stop(path, {request.unit})
    wait_for(lambda: rig.lane._detached[0]._stopping)
    goes_on.set()
    wait_for(rig.lane._detached[0].over.is_set)
    (done,) = rig.window(seconds=0.0, detach=True, in_flight_log=path).units
    rig.check(done)
    assert (acted, done.counts.acted, done.partitions[0].next_offset) == ([0], 1, 1)
    rig.window(seconds=0.0, detach=True, in_flight_log=path)
    assert in_flight_log.read(path) == {}


def test_slots_of_a_thread_that_was_given_up_are_not_given_to_another_unit(world: World, tmp_path: Path) -> None:
    path, goes_on = str(tmp_path / "log"), threading.Event()

    def act(event: Any) -> None:
        if offset_of(event) == 0:
            goes_on.wait(DEADLINE)

    world.fill(0, range(2))
    world.act = act
    rig = Rig(spec(timeout="1s"))
    outcome = rig.unit(5.0, in_flight_log=path)
    assert [f.failure.stage for f in outcome.failures] == ["timeout"]
    assert rig.unit(0.1, in_flight_log=path).partitions[0].next_offset == 2
    goes_on.set()
    assert rig.window(seconds=0.0, in_flight_log=path).tainted


def test_a_window_that_comes_too_late_begins_nothing(world: World) -> None:
    world.fill(0, range(3))
    rig = Rig(spec())
    (outcome,) = rig.window(rig.request(1.0), seconds=1.0, not_after=rig.clock.monotonic() - 0.1).units
    rig.check(outcome)
    assert (outcome.counts.acted, outcome.partitions[0].next_offset) == (0, 0)
