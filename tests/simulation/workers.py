"""Worker processes and the backend that runs windows in them: the `WindowBackend` of one instance.

Rules modelled: a lane's windows run in one process after the other; a unit that still acts at the end of its window is
detached and collected by a later one; a process may die at any step and takes everything with it that it has not
returned; the in-flight log outlives it and names only what it was working on; a process may outlive its driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.spark.context import WindowLost
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import UnitOutcome
from penstock.worker.protocol import WindowOutcome, WindowRequest, packed, unpacked
from tests.simulation.log import Nature
from tests.simulation.scheduler import Process, ProcessKilled, SimEvent
from tests.simulation.units import SimUnit

if TYPE_CHECKING:
    from tests.simulation.world import World

GRACE = 0.1
"""Seconds beyond its deadline that a window waits for units that are about to end."""


@dataclass(frozen=True, slots=True)
class WorkerId:
    """Stands for a process id with its start time."""

    pid: int
    started: int = 0


class Worker:
    """One worker process of a lane."""

    pids = itertools.count(100)

    def __init__(self, backend: SimSpark, lane: str) -> None:
        self.backend, self.lane = backend, lane
        self.world: World = backend.world
        self.pid = next(self.pids)
        self.process = Process(f"{backend.process}:worker-{self.pid}")
        self.world.processes.append(self.process)
        self.units: dict[int, SimUnit] = {}
        """Units that were begun and not returned."""
        self.in_flight: dict[int, dict[int, list[int]]] = {}
        """By unit and partition index: offsets being worked on."""
        self.deferred: dict[tuple[object, ...], dict[int, float]] = {}
        self.reported: dict[tuple[object, ...], int] = {}
        """Of tables: failures below these offsets were in an outcome of this process."""
        self.tainted = False
        self.changed = SimEvent(self.world.scheduler)
        self.returned: list[UnitOutcome] = []

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def isolates(self) -> bool:
        """It runs a suspect. Bad luck at that very moment could not be told from an event that kills."""
        return any(unit.request.careful for unit in self.units.values())

    def begin(self, request: WindowRequest) -> None:
        now = self.world.now
        for unit in request.units:
            if unit.closing:
                continue
            run = SimUnit(self, unit, now + max(unit.seconds, 0.0), request.not_after)
            self.units[unit.unit] = run
            self.world.scheduler.spawn(self.process, f"{self.process}/unit-{unit.unit}", run.run)

    def unit_ended(self, unit: SimUnit) -> None:
        self.in_flight.pop(unit.request.unit, None)
        self.changed.set()

    # -- what units note -------------------------------------------------------------------

    def working(self, unit: SimUnit, index: int, offsets: list[int]) -> None:
        self.in_flight.setdefault(unit.request.unit, {})[index] = list(offsets)

    def idle(self, unit: SimUnit) -> None:
        self.in_flight.pop(unit.request.unit, None)

    # -- what happens to it ----------------------------------------------------------------

    def take_time(self, nature: Nature) -> None:
        """The time that an act takes; the process may die meanwhile."""
        rng = self.world.rng
        if not self.isolates and self.world.faults.worker_dies():
            self.die("it died at a random step")
        if nature == "slow":
            self.world.scheduler.block(1.0 + rng.random() * self.world.model_slowness)
        elif rng.random() < 0.2:
            self.world.scheduler.block(rng.random() * 0.2)
        else:
            self.world.scheduler.pause()

    def die(self, reason: str) -> None:
        """The process ends here and now."""
        self.world.situations.reach("worker died at work")
        self.end(reason)
        raise ProcessKilled

    def hold(self, reason: str = "") -> None:
        """An action holds the interpreter: no thread of the process runs any more."""
        self.process.frozen = True
        self.world.scheduler.pause()

    def end(self, reason: str) -> None:
        if self.process.alive:
            self.world.note(f"{self.process} ends: {reason}")
            self.world.judge.deaths(str(self.process), *{unit.model.name for unit in self.units.values()})
            self.world.scheduler.kill(self.process)
            self.changed.set()


class SimSpark:
    """Runs windows for one instance; `run` blocks the lane's thread until the window has ended."""

    is_local = True

    def __init__(self, world: World, process: Process) -> None:
        self.world, self.process = world, process
        self.workers: dict[str, Worker] = {}
        self.all: list[Worker] = []

    # -- windows ---------------------------------------------------------------------------

    def run(self, request: WindowRequest) -> WindowOutcome:
        world = self.world
        world.network.call(self.process)
        worker = self._worker(request.lane)
        if len(request.units) > 64:
            world.situations.reach("more than 64 units in a lane")
        began = world.now
        worker.begin(request)
        world.hook("window begun", self.process)
        self._wait(worker, request, began)
        if not worker.alive:
            raise WindowLost("Python worker exited unexpectedly (crashed)")
        outcome = self._collect(worker, request, began)
        self._look_for_late(outcome, request)
        return unpacked(packed(outcome))

    def _worker(self, lane: str) -> Worker:
        worker = self.workers.get(lane)
        if worker is None or not worker.alive:
            worker = self.workers[lane] = Worker(self, lane)
            self.all.append(worker)
        return worker

    def _wait(self, worker: Worker, request: WindowRequest, began: float) -> None:
        """Until all units of the window have ended, or its time is over, or the process is gone."""
        mine = [unit.unit for unit in request.units if not unit.closing]
        end = began + request.seconds + GRACE
        while worker.alive:
            worker.changed.clear()
            if worker.process.frozen:
                worker.changed.wait(1.0)  # no thread of it runs, the one that would answer neither
                continue
            left = [unit for unit in mine if worker.units[unit].outcome is None]
            if self.world.now >= end or (not left and (mine or not self._running(worker))):
                return
            worker.changed.wait(max(0.001, end - self.world.now))

    @staticmethod
    def _running(worker: Worker) -> list[int]:
        return [number for number, unit in worker.units.items() if unit.outcome is None]

    def _collect(self, worker: Worker, request: WindowRequest, began: float) -> WindowOutcome:
        """Outcomes of all units that have ended, those of earlier windows included."""
        outcomes: list[UnitOutcome] = []
        for number, unit in list(worker.units.items()):
            if unit.outcome is not None:
                outcomes.append(unit.outcome)
                del worker.units[number]
            else:
                request_ = unit.request
                outcomes.append(UnitOutcome(number, request_.pipeline, request_.revision, "detached"))
        running = [outcome.unit for outcome in outcomes if outcome.status == "detached"]
        if len(running) >= 2:
            self.world.situations.reach("two detached units")
        for unit_request in request.units:
            if unit_request.closing:
                self._close(worker, unit_request.pipeline)
                outcomes.append(UnitOutcome(unit_request.unit, unit_request.pipeline, unit_request.revision, "closed"))
        done = [outcome for outcome in outcomes if outcome.status == "done"]
        if worker.returned and self.world.faults.returns_twice():
            self.world.situations.reach("an outcome twice")
            outcomes.append(worker.returned[-1])
            # The driver refuses the whole window.
            self.world.judge.deaths("an outcome twice", *{outcome.pipeline for outcome in outcomes})
        worker.returned = done or worker.returned
        for outcome in done:
            if outcome.failures and self.world.store.away:
                self.world.situations.reach("store away while a unit fails")
        return WindowOutcome(
            request.lane, worker.pid, outcomes, running, self.world.now - began, worker.tainted, len(worker.units)
        )

    @staticmethod
    def _close(worker: Worker, pipeline: str) -> None:
        worker.deferred = {key: kept for key, kept in worker.deferred.items() if key[0] != pipeline}

    def _look_for_late(self, outcome: WindowOutcome, request: WindowRequest) -> None:
        """Whether partitions of the outcome have gone to another instance meanwhile."""
        for unit in outcome.units:
            group = self.world.groups.get(unit.pipeline)
            for part in unit.partitions if group is not None else ():
                owner = group.owner(part.key) if group is not None else None
                if owner is not None and owner.process is not self.process:
                    self.world.situations.reach("a frozen owner's late outcome")

    # -- processes -------------------------------------------------------------------------

    def in_flight_log(self, lane: str) -> str | None:
        return f"{self.process}:{lane}"

    def read_in_flight(self, lane: str) -> dict[int, list[InFlight]] | None:
        worker = self.workers.get(lane)
        if worker is None:
            return {}
        return {
            unit: [InFlight(index, offset, offset + 1) for index, at in parts.items() for offset in at]
            for unit, parts in worker.in_flight.items()
        }

    def stop_units(self, lane: str, units: Collection[int]) -> None:
        worker = self.workers.get(lane)
        if worker is not None:
            for number in units:
                if number in worker.units:
                    worker.units[number].stopping = True
            self.world.log.interrupt()

    def identify(self, lane: str, pid: int) -> WorkerId | None:
        worker = self.workers.get(lane)
        return WorkerId(pid) if worker is not None and worker.pid == pid and worker.alive else None

    def current_process(self, lane: str) -> WorkerId | None:
        worker = self.workers.get(lane)
        return WorkerId(worker.pid) if worker is not None and worker.alive else None

    def end_process(self, process: WorkerId) -> bool:
        """Kill a worker and wait until it is gone."""
        self.world.scheduler.block(0.01)
        for worker in self.all:
            if worker.pid == process.pid and worker.alive:
                self._look_for_drain(worker)
                worker.end("ended by its driver")
        return True

    def _look_for_drain(self, worker: Worker) -> None:
        """A worker that is killed while its partitions are being revoked: `drain_timeout` has passed."""
        held = {(unit.request.pipeline, a.key) for unit in worker.units.values() for a in unit.request.assignments}
        for pipeline, place in held:
            group = self.world.groups.get(pipeline)
            members = group.members.values() if group is not None else ()
            if any(m.process is self.process and place in m.consumer.in_revoke for m in members):
                self.world.situations.reach("drain time-out")

    def cancel(self, lane: str) -> None:
        worker = self.workers.get(lane)
        if worker is not None:
            worker.end("its job was cancelled")
