"""A lane's process between and during windows: the pipelines it holds and the units it left acting."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.memory import collect_rarely, give_back
from penstock.kafka.registry.call_times import CALLS
from penstock.pipeline.built_pipeline import BuiltPipeline
from penstock.pipeline.in_flight_log import InFlightLog, InFlightSlots
from penstock.pipeline.messages import UnitOutcome, UnitRequest
from penstock.pipeline.unit import UnitRun, UnknownBlueprint
from penstock.pipeline.unit_result import FailureLimits
from penstock.worker.protocol import RESTING_AT_MOST, RunsRequest, WindowOutcome, WindowRequest

if TYPE_CHECKING:
    from penstock.worker.run_executor import RunExecutor

_GRACE = 0.03
"""Seconds in which no unit ends, after the deadline: what is still there is acting, and is left behind."""
_REST_AFTER = 60.0
"""A pipeline that has not been here for so long stops fetching, unless it is one of the last few: to begin again takes
a third of a second. Its consumer stays connected, for making one takes most of a second."""
_FETCHING_AT_MOST = 8
_EVICT_AFTER = 3_600.0
"""After so long it gives its consumer and connections back,"""
_CROWDED_AFTER = 15.0
"""and so does the one that rested longest when there are more than `RESTING_AT_MOST` that rest for so long."""
_CROWDED_REST_AFTER = 3.0
"""Seconds after which pipelines of a crowd stop fetching."""
_LOOK_EVERY = 0.5
_STOP_POLL = 0.02
"""Seconds between two looks for units that the driver wants to stop."""
_STOPPED_AT_MOST = 10_000
"""Units remembered as stopped, because their request may arrive after the wish to stop them."""

log = logging.getLogger("penstock.lane")


class LaneProcess:
    """The one object of this kind in a worker process."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._pipelines: dict[tuple[str, int], BuiltPipeline] = {}
        self._detached: list[UnitRun] = []
        self._tainted = False
        self._hung: list[BuiltPipeline] = []
        """With an external source, and an action that does not return."""
        self._log: InFlightLog | None = None
        self._slots: dict[int, InFlightSlots] = {}
        self._runs: list[UnitRun] = []
        """Units of the window that runs."""
        self._stopped: dict[int, None] = {}
        self._stop_watch: threading.Thread | None = None
        self._units_running = threading.Event()
        self._running: RunExecutor | None = None
        # Looking at young objects costs a tenth of a drain and frees nothing. On a cluster Spark collects garbage after
        # every task, too, and would look at every module's objects each time, for some 25 ms.
        gc.collect()
        collect_rarely()

    def run(self, request: WindowRequest) -> WindowOutcome:
        """Run the units of one window side by side; always back by the deadline where units may be left behind."""
        clock = self._clock
        began = clock.monotonic()
        late = request.not_after is not None and began > request.not_after
        deadline = Deadline.after(0.0 if late else request.seconds, clock)
        closed = [self._close(unit) for unit in request.units if unit.closing]
        if request.retiring:
            self._retire()
        self._rotate_slots(request)
        if request.runs is not None:
            return self._execute(request, request.runs, deadline)
        units = [unit for unit in request.units if not unit.closing]
        limits = FailureLimits().share(max(1, len(units)))
        runs = self._runs = [
            UnitRun(u, self._pipeline, deadline.sooner(u.seconds), self._open_slots, limits=limits, clock=clock)
            for u in units
        ]
        self._watch_stops()
        for run in runs:
            if run.request.unit in self._stopped:
                run.stop()
            run.start()
        self._wait(runs, deadline, detach=request.detach)
        self._give_up([*self._detached, *runs])
        outcomes = closed + self._collect(runs)
        self._evict()
        if self._tainted and not request.detach:
            # The process ends with this window.
            self._retire()
        return WindowOutcome(
            request.lane,
            os.getpid(),
            outcomes,
            [r.request.unit for r in self._detached],
            clock.monotonic() - began,
            self._tainted,
            held=len(self._pipelines),
            registry_calls=CALLS.take(),
        )

    def _execute(self, request: WindowRequest, runs: RunsRequest, deadline: Deadline) -> WindowOutcome:
        """Runs of workflows, in a lane that does nothing else."""
        from penstock.worker.run_executor import RunExecutor  # noqa: PLC0415 - other lanes need none of it

        if self._running is None:
            self._running = RunExecutor(runs)
        outcome = self._running.window(runs, deadline, detach=request.detach)
        return WindowOutcome(
            request.lane, os.getpid(), [], [], request.seconds, tainted=self._running.tainted, runs=outcome
        )

    def _rotate_slots(self, request: WindowRequest) -> None:
        """The slots of the last window's units are free: its outcome has arrived."""
        if request.in_flight_log is None:
            return
        if self._log is None:
            try:
                self._log = InFlightLog(request.in_flight_log)
            except OSError as error:
                # Units work all the same; after a death no suspect is named. Tried again with the next window.
                log.warning("no in-flight log in %s: %s", request.in_flight_log, error)
                return
        running = {run.request.unit for run in self._detached}
        for unit in [unit for unit in list(self._slots) if unit not in running]:
            self._log.close(self._slots.pop(unit))

    def _open_slots(self, unit: UnitRequest, concurrency: int) -> InFlightSlots:
        """Slots for a unit that begins; called in its thread."""
        if self._log is None:
            return InFlightSlots.none()
        slots = self._slots[unit.unit] = self._log.open(unit.unit, unit.assignments, concurrency)
        return slots

    # -- units that have to stop -----------------------------------------------------------

    def _watch_stops(self) -> None:
        """F16: look for the driver's wishes as long as units run, also between windows."""
        self._units_running.set()
        if self._log is not None and self._stop_watch is None:
            self._stop_watch = threading.Thread(target=self._poll_stops, name="stop-watch", daemon=True)
            self._stop_watch.start()

    def _poll_stops(self) -> None:
        while True:
            self._units_running.wait()
            self.stop_requested()
            self._clock.sleep(_STOP_POLL)

    def stop_requested(self) -> None:
        """Stop the units that the driver has named."""
        for unit in self._log.stop_requests() if self._log is not None else ():
            self._stopped[unit] = None
            if len(self._stopped) > _STOPPED_AT_MOST:
                del self._stopped[next(iter(self._stopped))]
            for run in [*self._runs, *self._detached]:
                if run.request.unit == unit:
                    run.stop()

    # -- pipelines -------------------------------------------------------------------------

    def _pipeline(self, unit: UnitRequest) -> BuiltPipeline:
        """The unit's pipeline, made in its own thread: what user code does there holds up no other unit."""
        key = (unit.pipeline, unit.revision)
        for old in [k for k in list(self._pipelines) if k[0] == unit.pipeline and k != key]:
            self._drop(old)
        held = self._pipelines.get(key)
        if held is None:
            if not unit.blueprint:
                raise UnknownBlueprint(f"revision {unit.revision} of {unit.pipeline}")
            held = self._pipelines[key] = BuiltPipeline(
                unit.blueprint, replays=unit.bounds is not None, clock=self._clock
            )
        return held

    def _wait(self, runs: list[UnitRun], deadline: Deadline, *, detach: bool) -> None:
        """Until every unit is done; a unit that is still acting shortly after its deadline is left behind."""
        if not runs:
            # A window without units comes to collect: it waits for the first detached unit that ends.
            while self._detached and not any(r.over.is_set() for r in self._detached) and not deadline.expired:
                self._detached[0].over.wait(min(0.02, deadline.remaining))
            return
        for run in runs:
            while not run.over.wait(deadline.remaining if detach else _LOOK_EVERY) and not detach:
                # Where no unit can be left behind, one that hangs is given up while the others are waited for.
                self._give_up(runs)
        # Many units end at the same moment and share the interpreter: as long as they keep ending, wait.
        while detach and (alive := [run for run in runs if not run.over.is_set()]):
            alive[-1].over.wait(_GRACE)
            if sum(not run.over.is_set() for run in alive) == len(alive):
                return

    def _give_up(self, runs: list[UnitRun]) -> None:
        """Units whose user code does not return: their threads stay behind, and this process should be replaced."""
        for run in runs:
            if run.overdue:
                run.abandon()
            if run.hangs:
                # Its slots stay taken: the thread that was given up may still write to them.
                self._slots.pop(run.request.unit, None)
                hung = self._pipelines.pop((run.request.pipeline, run.request.revision), None)
                if hung is not None and hung.external is not None:
                    self._hung.append(hung)
                self._tainted = True

    def _collect(self, runs: list[UnitRun]) -> list[UnitOutcome]:
        every = [*self._detached, *runs]
        ended = [r for r in every if r.over.is_set()]
        self._detached = [r for r in every if r not in ended]
        self._runs = []
        if not self._detached:
            self._units_running.clear()
        self._tainted = self._tainted or any(
            held.executor.tainted
            for r in ended
            if (held := self._pipelines.get((r.request.pipeline, r.request.revision))) is not None
        )
        left = [
            UnitOutcome(r.request.unit, r.request.pipeline, r.request.revision, "detached")
            for r in runs
            if r not in ended
        ]
        return [r.outcome for r in ended] + left

    def _close(self, unit: UnitRequest) -> UnitOutcome:
        # Not what a successor of the same name has built (F10).
        for key in [k for k in list(self._pipelines) if k[0] == unit.pipeline and k[1] <= unit.revision]:
            self._pipelines[key].confirm(unit.assignments)
            self._drop(key)
        for hung in [held for held in self._hung if held.spec.name == unit.pipeline]:
            # Its action does not return, but what is settled can still be acknowledged to its source.
            hung.confirm(unit.assignments)
            self._hung.remove(hung)
            self._run_aside(hung.close_source, hung.closes_within)
        return UnitOutcome(unit.unit, unit.pipeline, unit.revision, "closed")

    def _retire(self) -> None:
        """This process will be ended: close everything in good order."""
        for key in list(self._pipelines):
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        held = self._pipelines.pop(key)
        ended = self._run_aside(lambda: _close_quietly(held), held.closes_within)
        if held.external is not None and (held.external.is_stuck or not ended):
            # A source that cannot be stopped goes on pulling events.
            self._tainted = True

    @staticmethod
    def _run_aside(close: Callable[[], None], seconds: float) -> bool:
        """Whether it returned in time: it is user code, and consumers take a moment to leave; neither may hold up the
        window for good."""
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(timeout=seconds)
        return not closing.is_alive()

    def _evict(self) -> None:
        now = self._clock.monotonic()
        busy = {(r.request.pipeline, r.request.revision) for r in self._detached}
        # Units that were left behind may be making theirs.
        idle = [(held.used_at, key) for key, held in list(self._pipelines.items()) if key not in busy]
        rest_after = _CROWDED_REST_AFTER if len(idle) > RESTING_AT_MOST else _REST_AFTER
        evicted = 0
        for place, (used_at, key) in enumerate(sorted(idle, reverse=True)):
            held, resting = self._pipelines[key], now - used_at
            crowded = place >= RESTING_AT_MOST and resting > _CROWDED_AFTER
            if held.evictable and (crowded or resting > _EVICT_AFTER):
                self._drop(key)
                evicted += 1
            elif place >= _FETCHING_AT_MOST and resting > rest_after:
                held.rest()
        if evicted:
            give_back()


def _close_quietly(pipeline: BuiltPipeline) -> None:
    with contextlib.suppress(BaseException):
        pipeline.close()
