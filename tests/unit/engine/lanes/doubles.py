"""Doubles for tests of the driver: time that passes only while something waits for it, a backend that answers windows
as a test says, and a pipeline that notes what becomes of its units."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Any

from penstock.core.clock import Clock
from penstock.core.dead_letter import Stage
from penstock.core.metrics import Metrics
from penstock.core.threads import Condition, Event, Lock, Thread, ThreadEntry, Threads
from penstock.engine.spark.context import WindowLost
from penstock.engine.spark.worker_process import WorkerProcess
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import UnitOutcome, UnitRequest
from penstock.worker.protocol import RunsOutcome, WindowOutcome, WindowRequest

METRICS = Metrics()
"""Prometheus has one of each."""
CRASHED = "Python worker exited unexpectedly (crashed)"


class WouldBlock(AssertionError):
    """The code under test waits for something that no other thread of the test will do."""


class Time(Threads):
    """Clock and threads of a test in one thread: whoever waits makes the time pass, started threads do not run."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.started: list[tuple[str, Callable[[], None]]] = []
        self.clock = Clock(time=lambda: self.now, monotonic=lambda: self.now, sleep=self._pass, random=lambda: 0.5)
        self.at: list[tuple[float, Callable[[], None]]] = []
        """What other threads do, and when."""

    def _pass(self, seconds: float) -> None:
        until = self.now + seconds
        for when, act in sorted((each for each in self.at if each[0] <= until), key=lambda each: each[0]):
            self.at.remove((when, act))
            self.now = max(self.now, when)
            act()
        self.now = max(self.now, until)

    def start(self, name: str, target: Callable[[], None], *, owner: str, ends: str) -> Thread:
        assert ThreadEntry(name, owner, ends)
        self.started.append((name, target))
        return _Started(name)

    def lock(self) -> Lock:
        return _Waits(self)

    def condition(self) -> Condition:
        return _Waits(self)

    def event(self) -> Event:
        return _Event(self)


class _Started:
    def __init__(self, name: str) -> None:
        self.name = name

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None: ...


class _Waits:
    def __init__(self, time: Time) -> None:
        self._time, self.depth = time, 0

    def __enter__(self) -> object:
        self.depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            raise WouldBlock("waits for a notification")
        self._time._pass(timeout)
        return False

    def notify_all(self) -> None: ...


class _Event:
    def __init__(self, time: Time) -> None:
        self._time, self._set = time, False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            if timeout is None:
                raise WouldBlock("waits for an event")
            self._time._pass(timeout)
        return self._set


class Process:
    """A lane's process as the double sees it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.detached: dict[int, UnitRequest] = {}
        self.tainted = False
        self.token = ""


def _no_runs(request: WindowRequest, process: Process) -> RunsOutcome:
    process.token = process.token or (request.runs.token if request.runs else "")
    return RunsOutcome(process.token, 0, {}, 0, more=False)


class Backend:
    """Runs windows at once; what happens in them is up to the test."""

    cores = 2
    bell: str | None = None
    died = False

    def __init__(self, time: Time, *, is_local: bool = True) -> None:
        self.is_local = is_local
        self.time = time
        self.requests: list[WindowRequest] = []
        self.processes: dict[str, Process] = {}
        self.alive: set[int] = set()
        self.killed: list[int] = []
        self.cancelled: list[str] = []
        self.stopped: dict[str, set[int]] = {}
        self.in_flight: dict[str, dict[int, list[InFlight]]] = {}
        self.during: Callable[[WindowRequest], None] = lambda _: None
        """Happens in other threads while a window runs."""
        self.slow: set[str] = set()
        """Pipelines whose units are detached, and are until the test takes the name out."""
        self.answer: Callable[[WindowRequest, WindowOutcome], Any] = lambda _, outcome: outcome
        """What comes back instead of the right outcome."""
        self.runs: Callable[[WindowRequest, Process], RunsOutcome] = _no_runs
        self._pids = itertools.count(101)

    def run(self, request: WindowRequest) -> WindowOutcome:
        self.requests.append(request)
        process = self.processes.get(request.lane)
        if process is None or process.pid not in self.alive:
            process = self.processes[request.lane] = Process(next(self._pids))
            self.alive.add(process.pid)
        self.during(request)
        if process.pid not in self.alive or request.lane in self.cancelled:
            self.cancelled = [lane for lane in self.cancelled if lane != request.lane]
            raise WindowLost(CRASHED)
        answered: WindowOutcome = self.answer(request, self._outcome(request, process))
        return answered

    def _outcome(self, request: WindowRequest, process: Process) -> WindowOutcome:
        self.time._pass(request.seconds)
        every = {**process.detached, **{unit.unit: unit for unit in request.units}}
        process.detached = {n: u for n, u in every.items() if u.pipeline in self.slow and not u.closing}
        units = [
            UnitOutcome(u.unit, u.pipeline, u.revision, "closed" if u.closing else "done")
            for n, u in every.items()
            if n not in process.detached
        ]
        units += [
            UnitOutcome(u.unit, u.pipeline, u.revision, "detached") for u in request.units if u.unit in process.detached
        ]
        runs = None if request.runs is None else self.runs(request, process)
        running = list(process.detached)
        return WindowOutcome(request.lane, process.pid, units, running, request.seconds, process.tainted, runs=runs)

    # -- as `WindowBackend` ----------------------------------------------------------------

    def in_flight_log(self, lane: str) -> str | None:
        return f"/nowhere/{lane}" if self.is_local else None

    def read_in_flight(self, lane: str) -> dict[int, list[InFlight]] | None:
        return self.in_flight.get(lane, {}) if self.is_local else None

    def stop_units(self, lane: str, units: Collection[int]) -> None:
        self.stopped.setdefault(lane, set()).update(units)

    def identify(self, lane: str, pid: int) -> WorkerProcess | None:
        return WorkerProcess(pid, 0) if pid in self.alive else None

    def current_process(self, lane: str) -> WorkerProcess | None:
        process = self.processes.get(lane)
        return None if process is None else self.identify(lane, process.pid)

    def end_process(self, process: WorkerProcess) -> bool:
        if process.pid in self.alive:
            self.alive.discard(process.pid)
            self.killed.append(process.pid)
        return True

    def cancel(self, lane: str) -> None:
        self.cancelled.append(lane)

    # -- what a test does ------------------------------------------------------------------

    def crash(self, lane: str) -> None:
        """The lane's process dies."""
        self.alive.discard(self.processes[lane].pid)

    def last(self, lane: str) -> WindowRequest:
        return [request for request in self.requests if request.lane == lane][-1]


class Pipeline:
    """A `PlannedPipeline` that always has a unit to plan, one at a time per lane."""

    def __init__(
        self, name: str, *, pinned: bool = False, alone: bool = False, parallelism: int = 1, timeout: float = 30.0
    ) -> None:
        self.name, self.revision = name, 1
        self.pinned, self.alone, self.parallelism, self.timeout = pinned, alone, parallelism, timeout
        self.is_dedicated = self.has_isolated = False
        self.wake_at: float | None = None
        self.idle = False
        self.seconds = 1.0
        self.units: dict[int, str] = {}
        """In flight, with their lane."""
        self.planned: list[tuple[str, tuple[str, ...], float | None]] = []
        self.done: list[UnitOutcome] = []
        self.lost: list[tuple[set[int], dict[int, list[InFlight]] | None, Stage | None, str]] = []

    @property
    def busy(self) -> bool:
        return bool(self.units)

    def plan(
        self, lane: str, lanes: tuple[str, ...], new_unit: Callable[[], int], *, seconds: float | None = None
    ) -> UnitRequest | None:
        if self.idle or lane in self.units.values():
            return None
        self.planned.append((lane, lanes, seconds))
        return self._unit(lane, new_unit(), seconds or self.seconds)

    def plan_isolated(self, lane: str, new_unit: Callable[[], int]) -> UnitRequest | None:
        return None if lane in self.units.values() else self._unit(lane, new_unit(), 60.0)

    def _unit(self, lane: str, unit: int, seconds: float) -> UnitRequest:
        self.units[unit] = lane
        return UnitRequest(unit, self.name, self.revision, b"blueprint", [], seconds, 100)

    def closing_unit(self, unit: int) -> UnitRequest:
        return UnitRequest(unit, self.name, self.revision, b"", [], 0.0, 0, closing=True)

    def deliver(self, outcome: UnitOutcome, seconds: float) -> None:
        assert seconds >= 0
        if outcome.status == "done":
            del self.units[outcome.unit]
        self.done.append(outcome)

    def lose(
        self, units: set[int], suspects: dict[int, list[InFlight]] | None, *, stage: Stage | None, reason: str
    ) -> None:
        for unit in units:
            del self.units[unit]
        self.lost.append((units, suspects, stage, reason))
