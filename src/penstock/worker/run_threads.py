"""The runs that this process executes, their threads, and the buffer of what is to be reported about them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.config.secret_values import NoSecretKey
from penstock.core.cipher import WrongSecretKey
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Transient
from penstock.core.ids import new_id
from penstock.core.threads import THREADS, Threads
from penstock.store.work.claims import Claim
from penstock.store.work.results import LogLine, Report, RunEnd, StepResult, StepRow
from penstock.workflows.logs import RUNTIME
from penstock.workflows.task import Execution, Recorder

Prepare = Callable[[Claim, Recorder], Execution]
"""Reads the run's version of its workflow; nothing is executed yet."""

_NOT_THE_RUN = (Transient, NoSecretKey, WrongSecretKey)
"""Errors of the preparation that are none of the run: a silent store, or a key of the secrets that was changed."""


@dataclass(eq=False)
class ActiveRun:
    """A run from its claim until its end is written, or until it is given back."""

    claim: Claim
    execution: Execution | None = None
    """None: it waits for a thread, or is being prepared."""
    ended: bool = False
    """Its end is in the buffer or in the store, by this process or by another."""
    given_up: bool = False
    """Its thread goes on although the run has ended."""
    unprepared: PenstockError | None = None
    """Why it could not be begun; it is to be given back to the store."""


class ReportBuffer:
    """Collects what threads report until it is written. L7: bounded by the runs in flight and the limits of each."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._report = Report()
        self._size = 0

    def take(self) -> Report:
        """Everything that was added since the last call."""
        with self._lock:
            report, self._report = self._report, Report()
            self._size = 0
            return report

    def put_back(self, earlier: Report) -> None:
        """Return a report that could not be written; what was added since comes after it."""
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
            self._report.starts[run] = self._clock.now_us()
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
    """Starts a thread for each run up to `most`; further runs wait for a free one."""

    def __init__(
        self,
        most: int,
        prepare: Prepare,
        reports: ReportBuffer,
        finished: Callable[[ActiveRun], None],
        *,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        """`finished` is called in the run's thread when that has nothing more to do for it."""
        self._most, self._prepare, self._reports, self._finished = most, prepare, reports, finished
        self._clock, self._starter = clock, threads
        self._queue: queue.SimpleQueue[ActiveRun] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._active = 0
        """Begun and not finished. Idle threads are not counted: one that has just taken a run would count as idle."""
        self._threads = 0

    def begin(self, run: ActiveRun) -> None:
        with self._lock:
            self._active += 1
            if self._threads < min(self._active, self._most):
                self._threads += 1
                self._starter.start(
                    f"run-{self._threads}", self._work, owner="RunThreadPool", ends="with the lane's process"
                )
        self._queue.put(run)

    def _work(self) -> None:
        while True:
            run = self._queue.get()
            if not run.ended:
                self._execute(run)
            with self._lock:
                self._active -= 1
            self._finished(run)

    def _execute(self, run: ActiveRun) -> None:
        try:
            run.execution = self._prepare(run.claim, self._reports)
        except Exception as error:  # noqa: BLE001 - a version that cannot be used ends its run, not the thread
            if isinstance(error, PenstockError) and isinstance(error, _NOT_THE_RUN):
                # L6: nothing of the run was executed, and the next attempt to prepare it may succeed.
                run.unprepared = error
            else:
                self._end(run, self._unusable(run.claim.id, error))
            return
        self._reports.start(run.claim.id)
        try:
            end = run.execution.run()
        except Exception as error:  # noqa: BLE001 - as above
            end = self._unusable(run.claim.id, error)
        self._end(run, end)

    def _end(self, run: ActiveRun, end: RunEnd | None) -> None:
        if end is not None and not run.ended:
            self._reports.end(end)
            run.ended = True

    def _unusable(self, run: str, error: Exception) -> RunEnd:
        at = self._clock.now_us()
        text = str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
        self._reports.line(
            LogLine(id=new_id(), run_id=run, step_id=None, source=RUNTIME, level="error", message=text, timestamp=at)
        )
        return RunEnd(
            id=run,
            state="crashed" if isinstance(error, PenstockError) and not isinstance(error, Transient) else "exception",
            error_type=type(error).__name__,
            final_dataclip_id=None,
            started_at=at,
            finished_at=at,
        )
