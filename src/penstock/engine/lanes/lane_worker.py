"""One lane's worker: sends windows to its process, one after the other, and ends a process that does not answer.

Lanes of events, of runs and of replays all have one. Which units a window carries is their matter; what happens to the
process is decided here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog

from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.threads import THREADS, Threads
from penstock.engine.spark.context import EventCrashed, GarbledOutcome, WindowLost, WindowRepeated
from penstock.engine.spark.worker_process import WorkerProcess
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import UnitRequest
from penstock.worker.protocol import RunsRequest, WindowOutcome, WindowRequest

log = structlog.get_logger("penstock.lane")

OVERRUN = 5.0
"""Seconds beyond what a window and its actions may take, after which its process is killed."""
KEEP_WARM = 45.0
"""Spark drops a worker that was idle for a minute; it costs half a second to get back."""
_CLUSTER_GRACE = 3.0
"""Seconds for which a Python worker may live on after its job has ended on a cluster: Spark destroys it within two."""
_CANCELLED_WITHIN = 30.0
"""Seconds to wait for the end of a cancelled job: an executor that cannot be reached ends none."""
_END_AGAIN = 10.0
"""Seconds after which a process that should be gone is ended once more."""

Ended = Literal["overdue", "cancelled"]
"""Why this side ended a process: its window did not end, or its units were no longer wanted."""


class WindowBackend(Protocol):
    """What runs windows: Spark, or a test double. `run` may be called from many threads, once per lane at a time."""

    @property
    def is_local(self) -> bool:
        """A lane's windows run in one process after the other, which keeps units and in-flight log."""
        ...

    def run(self, request: WindowRequest) -> WindowOutcome:
        """Block until the window has ended; raises `WindowLost` when no outcome comes back."""
        ...

    def in_flight_log(self, lane: str) -> str | None:
        """Path of the lane's in-flight log; None on clusters."""
        ...

    def read_in_flight(self, lane: str) -> dict[int, list[InFlight]] | None:
        """By unit, what the lane's last process was working on; None on clusters."""
        ...

    def stop_units(self, lane: str, units: Collection[int]) -> None:
        """Local masters: ask units to begin no further act, without waiting."""
        ...

    def identify(self, lane: str, pid: int) -> WorkerProcess | None:
        """The worker process of the lane with this id; None: there is none, or it is not this lane's."""
        ...

    def current_process(self, lane: str) -> WorkerProcess | None:
        """The process that writes the lane's in-flight log; None: it is gone, or there was none yet."""
        ...

    def end_process(self, process: WorkerProcess) -> bool:
        """Kill a worker process and wait until it is gone; False when it is still there after some seconds."""
        ...

    def cancel(self, lane: str) -> None:
        """Clusters: cancel the lane's job, without waiting for its end."""
        ...


@dataclass(slots=True, frozen=True)
class LostUnits:
    """Units that end without an outcome."""

    units: frozenset[int]
    suspects: dict[int, list[InFlight]] | None
    """In-flight log of these units; None: there is none."""
    stage: Stage | None
    """What an event fails with that is to blame; None: no event is."""
    reason: str


@dataclass(slots=True, frozen=True)
class WindowResult:
    """How a window went. Both are set where it ended well in a new process and the former left units behind."""

    outcome: WindowOutcome | None
    lost: LostUnits | None


class LaneWorker:
    """`begin` and `run` are called by the lane, one window at a time; `end` by any thread that holds no lock."""

    def __init__(self, name: str, backend: WindowBackend, *, clock: Clock = SYSTEM, threads: Threads = THREADS) -> None:
        self.name = name
        self.warm = threads.event()
        """A window has ended, well or not: the process was started."""
        self.units: dict[int, str] = {}
        """Units that the process holds, by number, with their pipeline: of the window in flight, and detached ones."""
        self.detached: set[int] = set()
        """Those of earlier windows that are still acting."""
        self.known: set[tuple[str, int]] = set()
        """Pipelines, with their revision, whose blueprint the process has, as far as known."""
        self.tainted = False
        """A thread of the process hangs: the process is to be replaced once nothing of it is wanted."""
        self.busy_until: float | None = None
        """Monotonic time at which the window in flight should end; None: none is in flight, or only an empty one."""
        self.used_at = 0.0
        """Monotonic time at which the last window ended."""
        self.outage = Backoff(clock=clock)
        """Of windows that were lost without an event to blame."""
        self._process: WorkerProcess | None = None
        self._patience: float | None = None
        self._ended: Ended | None = None
        """Why the process was ended from here; the next lost window is explained by it."""
        self._idle = threads.event()
        self._idle.set()
        self._backend, self._clock = backend, clock

    # -- windows ---------------------------------------------------------------------------

    def request(
        self,
        seconds: float,
        units: list[UnitRequest],
        *,
        retiring: bool = False,
        not_after: float | None = None,
        runs: RunsRequest | None = None,
    ) -> WindowRequest:
        """A window for this lane's process."""
        path, local = self._backend.in_flight_log(self.name), self._backend.is_local
        return WindowRequest(self.name, seconds, units, local, path, retiring, not_after, runs)

    def without_known_blueprint(self, unit: UnitRequest) -> UnitRequest:
        """The unit without its blueprint where the process has it already; a process that has not answers `unknown`."""
        key = (unit.pipeline, unit.revision)
        if key in self.known:
            unit.blueprint = b""
        if self._backend.is_local:
            self.known.add(key)
        return unit

    def begin(self, request: WindowRequest, patience: float | None) -> None:
        """Note that the window is about to run. `patience`: seconds beyond its length in which its units may still be
        at one event; None: however long it takes, it is not overdue."""
        self.units.update((unit.unit, unit.pipeline) for unit in request.units)
        self.busy_until = None if patience is None else self._clock.monotonic() + request.seconds
        self._patience = patience
        self._idle.clear()

    def run(self, request: WindowRequest) -> WindowResult:
        """Run a window that has begun, and wait for it. Never raises; a window that is lost is part of the result, and
        its process is gone by then (on clusters: has had the time to end)."""
        began = self._clock.monotonic()
        try:
            outcome = self._backend.run(request)
            self._check(request, outcome)
        except WindowLost as error:
            log.warning("window lost", lane=self.name, reason=error.message)
            return WindowResult(None, self._lose(request, began, error))
        except Exception as error:
            # F29: whatever went wrong, the lane goes on.
            log.exception("window lost", lane=self.name)
            reason = f"{type(error).__name__}: {error}"
            return WindowResult(None, self._lose(request, began, GarbledOutcome(reason)))
        finally:
            self.busy_until, self._patience = None, None
            self.used_at = self._clock.monotonic()
            self.warm.set()
            self._idle.set()
        seconds = round(self._clock.monotonic() - began, 3)
        log.debug("window", lane=self.name, units=len(request.units), detached=len(outcome.running), seconds=seconds)
        return WindowResult(outcome, self._accept(outcome))

    def _check(self, request: WindowRequest, outcome: WindowOutcome) -> None:
        """Refuse an answer that is not the outcome of this window: to use a part of it could skip events."""
        if not isinstance(outcome, WindowOutcome):
            raise GarbledOutcome("the worker's answer is no outcome", received=type(outcome).__name__)
        if outcome.lane != self.name:
            raise GarbledOutcome("the outcome is of another lane", received=outcome.lane, allowed=self.name)
        if (outcome.runs is None) != (request.runs is None):
            raise GarbledOutcome("the outcome is of another kind of window", received=outcome.runs)
        answered = [unit.unit for unit in outcome.units]
        if len(answered) != len(set(answered)) or len(outcome.running) != len(set(outcome.running)):
            raise GarbledOutcome("the outcome has a unit twice", received=sorted([*answered, *outcome.running]))
        for unit in outcome.units:
            if self.units.get(unit.unit) != unit.pipeline:
                raise GarbledOutcome("the outcome has a unit that was not asked for", received=unit.unit)
            if (unit.status == "detached") != (unit.unit in outcome.running):
                raise GarbledOutcome("the outcome says two things about a unit", received=unit.unit)
        self._check_complete(request, outcome, {*answered, *outcome.running})

    def _check_complete(self, request: WindowRequest, outcome: WindowOutcome, named: set[int]) -> None:
        if foreign := named - set(self.units):
            raise GarbledOutcome("units are said to run that were not asked for", received=sorted(foreign))
        expected = {unit.unit for unit in request.units}
        if self._process is not None and self._process.pid == outcome.pid:
            expected |= self.detached
        if missing := expected - named:
            raise GarbledOutcome("the outcome does not name every unit", received=f"without {sorted(missing)}")

    def _accept(self, outcome: WindowOutcome) -> LostUnits | None:
        gone = self.detached - set(outcome.running) - {unit.unit for unit in outcome.units}
        self.detached = set(outcome.running)
        self.units = {unit: pipeline for unit, pipeline in self.units.items() if unit in self.detached}
        self.outage.succeed()
        if not self._backend.is_local:
            # A cluster's worker that has a hung thread ends itself.
            return None
        self.tainted = outcome.tainted
        former, known = self._process, self._process is not None and self._process.pid == outcome.pid
        for unit in outcome.units:
            if unit.halt is not None and unit.halt.kind == "unknown":
                self.known.discard((unit.pipeline, unit.revision))
        if not known:
            self._process = self._backend.identify(self.name, outcome.pid)
            self._ended = None
            self.known.clear()
            if former is not None:
                # Spark took another process: the former died while it was idle, or was late. There must not be two.
                self._backend.end_process(former)
        if not gone:
            return None
        return LostUnits(frozenset(gone), {}, None, "another process took the place of the lane's worker")

    def _lose(self, request: WindowRequest, began: float, error: WindowLost) -> LostUnits:
        lost = frozenset({unit.unit for unit in request.units} | self.detached)
        self._patience = None
        suspects = self._backend.read_in_flight(self.name)
        if self._backend.is_local:
            # Also where it lives on: what it holds is repeated elsewhere.
            self._end_process()
        elif not isinstance(error, EventCrashed):
            # F17: an executor out of reach may act until the window's end; one whose job was cancelled for a moment.
            left = 0.0 if self._ended else max(0.0, began + request.seconds - self._clock.monotonic())
            self._clock.sleep(left + _CLUSTER_GRACE)
        stage = self._blame(error)
        if stage is None and self._ended != "cancelled":
            self.outage.fail()
        self._process, self._ended, self.tainted = None, None, False
        self.detached, self.units, self.known = set(), {}, set()
        if suspects is not None:
            # Units whose outcome has arrived may still have a slot in the log.
            suspects = {unit: at for unit, at in suspects.items() if unit in lost} if stage is not None else {}
        return LostUnits(lost, suspects, stage, error.message)

    def _blame(self, error: WindowLost) -> Stage | None:
        """What an event fails with that the process died of; None: no event is to blame."""
        if self._ended == "cancelled" or isinstance(error, WindowRepeated | GarbledOutcome):
            return None
        if self._ended == "overdue":
            return "timeout"
        # L6: on clusters a process that was not proven to be at an event died of something else.
        return "crash" if self._backend.is_local or isinstance(error, EventCrashed) else None

    # -- the process -----------------------------------------------------------------------

    @property
    def overdue(self) -> bool:
        """The window in flight should have ended: an action holds its process."""
        until, patience = self.busy_until, self._patience
        return until is not None and patience is not None and self._clock.monotonic() > until + patience + OVERRUN

    @property
    def is_new(self) -> bool:
        """No window has ended in the lane's process yet: the next one has to start it."""
        return self._process is None

    def end(self, why: Ended) -> None:
        """End the process and wait until it is gone: another one may repeat what it was doing. Blocks for seconds."""
        self._ended = why
        if self._patience is not None:
            self._patience += _END_AGAIN
        if self._backend.is_local:
            self._end_process()
        elif not self._idle.is_set():
            self._backend.cancel(self.name)
            # F17: when `run` returns, the job has ended and its Python worker has had the time to end.
            self._idle.wait(_CANCELLED_WITHIN + _CLUSTER_GRACE)

    def recycle(self) -> None:
        """Replace a process with a hung thread that holds nothing that is wanted any more. Blocks for seconds."""
        if self._backend.is_local:
            self._end_process()
        self._process, self.tainted, self._ended = None, False, None
        self.detached, self.units, self.known = set(), {}, set()

    def _end_process(self) -> None:
        # The writer of the log is another one where the lane's new process has not returned a window yet.
        for process in {self._backend.current_process(self.name), self._process} - {None}:
            if process is not None and not self._backend.end_process(process):
                log.error("a worker process does not end", lane=self.name, pid=process.pid)

    def stop_units(self, units: Collection[int]) -> None:
        """F16: ask these units to begin no further act, without waiting."""
        if self._backend.is_local:
            self._backend.stop_units(self.name, units)
        elif not self._idle.is_set():
            self._ended = "cancelled"
            self._backend.cancel(self.name)
