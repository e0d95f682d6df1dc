"""Runs that this process holds, the threads that execute them, and what is to be reported of them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.core.errors import PenstockError, Transient
from penstock.core.ids import new_id
from penstock.store.work.claims import Claim
from penstock.store.work.results import LogLine, Report, RunEnd, StepResult, StepRow
from penstock.workflows.logs import RUNTIME
from penstock.workflows.task import Execution, Recorder

Make = Callable[[Claim, Recorder], Execution]


@dataclass(eq=False)
class ActiveRun:
    """A run from its claim until its end is written."""

    claim: Claim
    claimed_at: float = field(default_factory=time.monotonic)
    execution: Execution | None = None
    """None: it waits for a thread, or is being prepared."""
    ended: bool = False
    """Its end is reported, or someone else has ended it."""
    given_up: bool = False
    """Its thread goes on, and nobody waits for it."""


class ReportBuffer:
    """Collects what threads report, until it is written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._report = Report()
        self._size = 0

    def take(self) -> Report:
        with self._lock:
            report, self._report = self._report, Report()
            self._size = 0
            return report

    def put_back(self, earlier: Report) -> None:
        """It could not be written; what has been added since comes after it."""
        with self._lock:
            later, self._report = self._report, earlier
            ended = {end.id for end in later.ends}
            earlier.starts = {run: at for run, at in earlier.starts.items() if run not in ended} | later.starts
            earlier.steps += later.steps
            earlier.dataclips += later.dataclips
            earlier.log_lines += later.log_lines
            earlier.ends += later.ends
            self._size += 1

    @property
    def is_empty(self) -> bool:
        return not self._size

    def start(self, run: str) -> None:
        with self._lock:
            self._report.starts[run] = time.time_ns() // 1_000
            self._size += 1

    def step(self, row: StepRow) -> None:
        with self._lock:
            self._report.steps.append(row)
            self._size += 1

    def result(self, clip: StepResult) -> None:
        with self._lock:
            self._report.dataclips.append(clip)
            self._size += 1

    def line(self, line: LogLine) -> None:
        with self._lock:
            self._report.log_lines.append(line)
            self._size += 1

    def end(self, end: RunEnd) -> None:
        with self._lock:
            self._report.starts.pop(end.id, None)
            self._report.ends.append(end)
            self._size += 1


class RunThreadPool:
    """Threads, as many as there is work for."""

    def __init__(self, most: int, make: Make, notes: ReportBuffer, ended: Callable[[ActiveRun], None]) -> None:
        self._most, self._make, self._notes, self._ended = most, make, notes, ended
        self._queue: queue.SimpleQueue[ActiveRun] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._flights = 0
        """Begun and not ended. Idle threads are not counted: one that has just taken a flight would count as idle."""
        self._threads = 0

    def begin(self, flight: ActiveRun) -> None:
        with self._lock:
            self._flights += 1
            if self._threads < min(self._flights, self._most):
                self._threads += 1
                threading.Thread(target=self._work, name=f"run-{self._threads}", daemon=True).start()
        self._queue.put(flight)

    def _work(self) -> None:
        while True:
            flight = self._queue.get()
            if not flight.ended:
                self._execute(flight)
            with self._lock:
                self._flights -= 1
            self._ended(flight)

    def _execute(self, flight: ActiveRun) -> None:
        run = flight.claim.id
        self._notes.start(run)
        try:
            flight.execution = self._make(flight.claim, self._notes)
            end = flight.execution.run()
        except Exception as error:  # noqa: BLE001 - a run whose version cannot be read ends of it, not the thread
            end = self._unmade(run, error)
        if end is not None and not flight.ended:
            self._notes.end(end)
            flight.ended = True

    def _unmade(self, run: str, error: Exception) -> RunEnd:
        at = time.time_ns() // 1_000
        text = str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
        self._notes.line(
            LogLine(id=new_id(), run_id=run, step_id=None, source=RUNTIME, level="error", message=text, timestamp=at)
        )
        state = "exception" if isinstance(error, Transient) or not isinstance(error, PenstockError) else "crashed"
        return RunEnd(
            id=run,
            state=state,
            error_type=type(error).__name__,
            final_dataclip_id=None,
            started_at=at,
            finished_at=at,
        )
