"""The run scheduler and its lanes, without Spark and without a store."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from penstock.core.errors import Unavailable
from penstock.engine.runs.scheduler import RunLane, RunScheduler
from penstock.store.work.losing import Lost
from penstock.worker.protocol import RunsOutcome, WindowRequest
from tests.unit.engine.lanes.doubles import METRICS, Backend, Process, Time


class Runs:
    """The store, as far as the scheduler asks it."""

    def __init__(self) -> None:
        self.waits = False
        self.away = False
        self.outages = 0
        self.lost: list[set[str]] = []
        self.sweeps = 0

    def _reach(self) -> None:
        if self.away:
            raise Unavailable("the store is away")

    def waiting(self) -> bool:
        self._reach()
        return self.waits

    def any_workflow(self) -> bool:
        return False

    def lose(self, tokens: Collection[str]) -> list[Lost]:
        self._reach()
        self.lost.append(set(tokens))
        return []

    def lose_silent(self, seconds: float) -> list[Lost]:
        self._reach()
        assert seconds == 30.0
        self.sweeps += 1
        return []

    def note_outage(self) -> None:
        self.outages += 1


class Bench:
    def __init__(self, folder: Path, *, local: bool = True) -> None:
        self.time, self.store = Time(), Runs()
        self.backend = Backend(self.time, is_local=local)
        self.backend.cores = 8 if not local else 2
        self.backend.runs = self._window
        self.active: dict[str, int] = {}
        """Runs that each lane's process executes."""
        settings = Settings.load({"PENSTOCK_HOME": str(folder)}, cwd=folder)
        self.scheduler = RunScheduler(
            "me", settings, self.store, self.backend, METRICS, clock=self.time.clock, threads=self.time
        )
        self.scheduler.start()

    def _window(self, request: WindowRequest, process: Process) -> RunsOutcome:
        assert request.runs is not None
        process.token = process.token or request.runs.token
        return RunsOutcome(process.token, 0, {}, self.active.get(request.lane, 0), more=False)

    @property
    def lanes(self) -> list[RunLane]:
        return self.scheduler.lanes

    def look(self, *, rung: bool = False, waits: bool = True) -> None:
        self.store.waits = waits
        self.time._pass(0.5)
        self.scheduler.look(rung=rung)

    def window(self, number: int = 0) -> WindowRequest:
        assert self.scheduler.run_window(self.lanes[number])
        return self.backend.requests[-1]

    @property
    def wanted(self) -> list[str]:
        return [lane.worker.name for lane in self.lanes if lane.wanted]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_first_lane_takes_what_comes(bench: Bench) -> None:
    bench.look(waits=False)
    assert bench.wanted == []
    bench.look()
    assert bench.wanted == ["runs-0"]
    assert bench.window().runs is not None
    assert bench.wanted == []


def test_another_lane_helps_where_runs_are_kept_waiting(bench: Bench) -> None:
    bench.look()

    def busy(_: WindowRequest) -> None:
        bench.look()
        assert bench.wanted == ["runs-0"]
        bench.look()
        assert bench.wanted == ["runs-0", "runs-1"]

    bench.backend.during = busy
    bench.window()


def test_f30_runs_that_are_kept_waiting_are_noticed_though_new_ones_are_announced_all_the_time(bench: Bench) -> None:
    bench.look()

    def busy(_: WindowRequest) -> None:
        for _ in range(4):
            bench.look(rung=True)
        assert bench.wanted == ["runs-0", "runs-1"]

    bench.backend.during = busy
    bench.window()


def test_f30_a_lane_with_a_hung_thread_and_a_long_run_gets_no_more_runs_and_the_next_one_does(bench: Bench) -> None:
    bench.look()
    bench.active["runs-0"] = 1
    bench.window()
    bench.backend.processes["runs-0"].tainted = True
    bench.window()
    bench.look(rung=True)
    assert bench.wanted == ["runs-1"]
    request = bench.window()
    assert request.runs is not None
    assert not request.runs.claims
    assert bench.backend.processes["runs-0"].pid in bench.backend.alive
    bench.active["runs-0"] = 0
    bench.window()
    assert bench.backend.processes["runs-0"].pid not in bench.backend.alive, "its last run has ended"
    bench.look(waits=False)
    assert len(bench.store.lost) == 1


def test_f08_a_run_of_a_cluster_may_take_as_long_as_its_time_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, local=False)
    bench.look()

    def long(_: WindowRequest) -> None:
        for _ in range(60):
            bench.time._pass(10.0)
            bench.scheduler._end_overdue()
        assert bench.backend.cancelled == []

    bench.backend.during = long
    bench.window()
    assert bench.store.lost == []


def test_a_step_that_holds_its_process_is_ended_and_its_runs_are_lost(bench: Bench) -> None:
    bench.look()
    bench.window()
    token = bench.lanes[0].token
    bench.look()

    def hold(_: WindowRequest) -> None:
        bench.time._pass(2.0 + 29.0)
        bench.scheduler._end_overdue()
        assert bench.backend.killed == []
        bench.time._pass(2.0)
        bench.scheduler._end_overdue()

    bench.backend.during = hold
    bench.window()
    assert len(bench.backend.killed) == 1
    assert token in bench.store.lost[0]
    assert bench.wanted == ["runs-0"], "it goes on"


def test_a_process_has_time_to_start(bench: Bench) -> None:
    bench.look()

    def start(_: WindowRequest) -> None:
        bench.time._pass(150.0)
        bench.scheduler._end_overdue()

    bench.backend.during = start
    bench.window()
    assert bench.backend.killed == []


def test_runs_of_a_process_that_was_replaced_are_lost(bench: Bench) -> None:
    bench.look()
    bench.active["runs-0"] = 1
    bench.window()
    token = bench.lanes[0].token
    bench.backend.crash("runs-0")
    bench.window()
    bench.look(waits=False)
    assert bench.store.lost == [{token}]


def test_lost_runs_are_marked_when_the_store_is_back(bench: Bench) -> None:
    bench.look()
    bench.backend.during = lambda request: bench.backend.crash(request.lane)
    bench.store.away = True
    bench.window()
    assert bench.store.lost == []
    bench.store.away = False
    bench.look(waits=False)
    assert len(bench.store.lost) == 1


def test_the_looking_thread_survives_outages_and_whatever_else_is_raised(bench: Bench) -> None:
    (look,) = [target for name, target in bench.time.started if name == "runs"]
    bench.store.away = True
    bench.time.at = [
        (bench.time.now + 2.0, lambda: setattr(bench.store, "away", False)),
        (bench.time.now + 2.1, lambda: setattr(bench.store, "waits", None)),
        (bench.time.now + 60.0, lambda: setattr(bench.scheduler, "_stopping", True)),
    ]
    waiting = bench.store.waiting

    def odd() -> bool:
        if bench.store.waits is None:
            bench.store.waits = False
            raise ValueError("odd")
        return waiting()

    bench.store.waiting = odd  # type: ignore[method-assign]
    look()
    assert bench.store.outages >= 2
    assert bench.store.sweeps >= 5


def test_a_lane_survives_whatever_is_raised_in_it(bench: Bench) -> None:
    bench.look()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.scheduler, "_accept", None)
        bench.window()
    bench.look()
    bench.window()
    assert not bench.lanes[0].in_window


def test_a_window_of_runs_that_answers_with_units_is_lost(bench: Bench) -> None:
    bench.look()
    bench.backend.answer = lambda _, outcome: setattr(outcome, "runs", None) or outcome
    bench.window()
    bench.backend.answer = lambda _, outcome: outcome
    assert len(bench.store.lost) == 1
    bench.time._pass(5.0)
    bench.window()
    assert bench.lanes[0].token is not None


def test_a_stop_lets_runs_end_and_begins_no_more(bench: Bench) -> None:
    bench.look()
    bench.active["runs-0"] = 1
    bench.window()
    bench.scheduler._stopping = True
    request = bench.window()
    assert request.runs is not None
    assert not request.runs.claims
    bench.active["runs-0"] = 0
    bench.window()
    assert not bench.scheduler.run_window(bench.lanes[0])
    assert bench.scheduler.stop(1.0)
    assert bench.store.lost == []


def test_what_is_left_after_a_stop_is_ended_and_lost(bench: Bench) -> None:
    bench.look()
    bench.active["runs-0"] = 1
    bench.window()
    token = bench.lanes[0].token
    assert not bench.scheduler.stop(1.0)
    assert len(bench.backend.killed) == 1
    assert bench.store.lost == [{token}]
