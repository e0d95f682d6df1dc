"""A dispatcher with one shared lane and an isolation lane, for tests of the runner alone."""

from __future__ import annotations

import itertools
from typing import Any

from penstock.engine.spark.context import WindowLost
from penstock.worker.protocol import WindowRequest
from tests.simulation.instance import Seams
from tests.simulation.schedule import SESSION_TIMEOUT

SHARED, ISOLATION = "shared", "isolation"


class MiniDispatcher:
    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self._runners: list[Any] = []
        self._everyone: list[Any] = []
        self._work = seams.threads.condition()
        self._numbers = itertools.count(1)
        self._cancelled: set[str] = set()
        self._overdue: dict[str, float] = {}
        self._holds: dict[int, tuple[str, Any]] = {}

    def start(self) -> None:
        for lane in (SHARED, ISOLATION):
            self._seams.threads.start(f"lane-{lane}", lambda lane=lane: self._serve(lane), owner="", ends="")
        self._seams.threads.start("overdue", self._watch, owner="", ends="")

    def new_unit(self) -> int:
        return next(self._numbers)

    def add(self, runner: Any) -> None:
        self._runners = [*self._runners, runner]
        self.ready(runner)

    def remove(self, runner: Any) -> None:
        self._runners = [other for other in self._runners if other is not runner]

    def ready(self, runner: Any) -> None:
        with self._work:
            self._work.notify_all()

    wake = isolate = ready

    def dedicate(self, runner: Any, *, on: bool) -> None:
        return

    def renew(self, runner: Any) -> None:
        return

    def lanes_of(self, runner: Any) -> tuple[str, ...]:
        return (SHARED,)

    def cancel(self, units: set[int]) -> None:
        for lane in {self._holds[unit][0] for unit in units if unit in self._holds}:
            self._cancelled.add(lane)
            self._end(lane)

    def stop_units(self, units: set[int]) -> None:
        for lane in {self._holds[unit][0] for unit in units if unit in self._holds}:
            self._seams.backend.stop_units(lane, units)

    def _end(self, lane: str) -> None:
        process = self._seams.backend.current_process(lane)
        if process is not None:
            self._seams.backend.end_process(process)

    def _watch(self) -> None:
        while True:
            self._seams.clock.sleep(1.0)
            for lane, at in list(self._overdue.items()):
                if self._seams.clock.monotonic() > at:
                    self._overdue.pop(lane, None)
                    self._end(lane)

    def _serve(self, lane: str) -> None:
        detached: set[int] = set()
        backend, clock = self._seams.backend, self._seams.clock
        while True:
            with self._work:
                units = self._plan(lane) if lane == SHARED or not detached else []
                if not units and not detached:
                    self._work.wait(0.5)
                    continue
            now = clock.monotonic()
            seconds = max([unit.seconds for unit in units], default=0.5)
            request = WindowRequest(lane, seconds, units, detach=True, not_after=now + SESSION_TIMEOUT * 2 / 3)
            self._overdue[lane] = now + seconds + 8.0
            mine = {unit.unit for unit in units} | detached
            try:
                outcome = backend.run(request)
            except WindowLost as error:
                suspects = backend.read_in_flight(lane)
                stage = None if lane in self._cancelled else "crash"
                self._cancelled.discard(lane)
                for runner in {self._holds.pop(unit)[1] for unit in mine if unit in self._holds}:
                    runner.lose(mine, suspects, stage=stage, reason=error.message)
                detached = set()
            else:
                detached = set(outcome.running)
                for unit in outcome.units:
                    held = self._holds.get(unit.unit)
                    if unit.unit not in detached:
                        self._holds.pop(unit.unit, None)
                    if held is not None:
                        held[1].deliver(unit, request.seconds)
                if outcome.tainted and not detached:
                    self._end(lane)
            finally:
                self._overdue.pop(lane, None)

    def _plan(self, lane: str) -> list[Any]:
        found = []
        for runner in self._runners:
            if lane == ISOLATION:
                unit = runner.plan_isolated(lane, self.new_unit) if runner.has_isolated else None
            else:
                unit = runner.plan(lane, (SHARED,), self.new_unit)
            if unit is not None:
                self._holds[unit.unit] = (lane, runner)
                found.append(unit)
                if lane == ISOLATION:
                    break
        return found
