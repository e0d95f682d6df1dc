"""Jobs over many dead letters: done by the instance that was asked, which tells the store how far each is."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Unavailable
from penstock.store import LetterJobKind, LetterJobReport, LetterJobRow, LetterJobState, Store

log = structlog.get_logger("penstock.letter_jobs")

_EVERY: Final = 1.0
"""Seconds between two reports of a job: not per letter, and often enough to watch it."""
_LAST_WORDS: Final = 5.0
"""Seconds that a stop waits for the store to be told of the ends."""
_STOPPED: Final = "its instance was stopped; letters that it had not reached are free again, and it can be begun anew"


class Stopping(Unavailable):
    """The instance begins nothing more."""

    code = "stopping"


class Work(Protocol):
    """What a job does, as other threads may look at it."""

    @property
    def runner(self) -> str: ...
    @property
    def total(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def note(self) -> str | None: ...
    @property
    def halted(self) -> str | None:
        """Why it ended by itself before its end."""

    def figures(self) -> dict[str, dict[str, Any]]:
        """By pipeline, those that it has not begun with included."""

    def run(self, stop: threading.Event) -> None:
        """To the end, or until it is stopped, in good order."""


@dataclass(slots=True, eq=False)
class _Job:
    """One of this process."""

    id: str
    work: Work
    state: LetterJobState
    error: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def report(self) -> LetterJobReport:
        state = self.state  # first: what is told of a job that is over is all of it
        return LetterJobReport(
            state=state,
            done=self.work.done,
            pipelines=self.work.figures(),
            note=self.work.note,
            error=self.error or self.work.halted,
        )


class LetterJobs:
    """Those of this process. A thread of its own reports them all, so that a store that is away holds none of them
    up, and nothing is forgotten until the store knows how it ended."""

    def __init__(self, store: Store, instance: Callable[[], str]) -> None:
        self._store, self._instance = store, instance
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()
        self._look = threading.Event()
        self._closed = False
        self._line: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._reporter: threading.Thread | None = None
        self._liner: threading.Thread | None = None
        self._workers: list[threading.Thread] = []

    def begin(self, kind: LetterJobKind, work: Work, *, by: str, what: str, pipelines: Collection[str]) -> LetterJobRow:
        """Begin at once, beside others."""
        row, job = self._add(kind, work, "running", by=by, what=what, pipelines=pipelines)
        with self._lock:
            self._workers = [each for each in self._workers if each.is_alive()]
            self._workers.append(_started(f"{kind}-{row.id}", self._run, job))
        return row

    def line_up(
        self, kind: LetterJobKind, work: Work, *, by: str, what: str, pipelines: Collection[str]
    ) -> LetterJobRow:
        """Begin when all that were lined up before have ended."""
        row, job = self._add(kind, work, "queued", by=by, what=what, pipelines=pipelines)
        self._line.put(job)
        with self._lock:
            if self._liner is None:
                self._liner = _started("letter-jobs", self._run_line)
        return row

    def look(self) -> None:
        """Something may be asked of a job: do not wait to find out."""
        self._look.set()

    def close(self, timeout: float = 15.0) -> None:
        """Stop all of them, wait for their ends, and tell the store."""
        deadline = Deadline.after(timeout)
        with self._lock:
            self._closed = True
            jobs, threads = list(self._jobs.values()), [*self._workers, *([self._liner] if self._liner else [])]
        for job in jobs:
            job.stop.set()
        self._line.put(None)
        for thread in threads:
            thread.join(deadline.remaining)
        self._look.set()
        if self._reporter is not None:
            self._reporter.join(_LAST_WORDS)
        with self._lock:
            if self._jobs:
                log.warning("the store was not told how jobs ended; others give them up", jobs=sorted(self._jobs))
            self._jobs.clear()

    def _add(
        self, kind: LetterJobKind, work: Work, state: LetterJobState, *, by: str, what: str, pipelines: Collection[str]
    ) -> tuple[LetterJobRow, _Job]:
        if self._closed:
            raise Stopping("the instance is stopping", hint="ask another one, or try again when it is back")
        row = self._store.letter_jobs.add(
            kind,
            by=by,
            what=what,
            pipelines=pipelines,
            total=work.total,
            instance=self._instance(),
            runner=work.runner,
            state=state,
        )
        job = _Job(row.id, work, state)
        with self._lock:
            if self._closed:
                job.stop.set()
            self._jobs[row.id] = job
            if self._reporter is None:
                self._reporter = _started("letter-job-reports", self._report)
        self._look.set()
        return row, job

    # -- doing them ------------------------------------------------------------------------

    def _run_line(self) -> None:
        while (job := self._line.get()) is not None:
            self._run(job)

    def _run(self, job: _Job) -> None:
        with self._lock:
            if job.state == "stopped":
                return  # it was while it waited
            job.state = "running"
        try:
            if not job.stop.is_set():
                job.work.run(job.stop)
        except PenstockError as error:
            job.error = str(error)
        except Exception as error:
            log.exception("a job over dead letters ended badly", job=job.id)
            job.error = f"{type(error).__name__}: {error}"
        self._end(job)

    def _end(self, job: _Job) -> None:
        if job.error or job.work.halted:
            job.state = "failed"
        elif not job.stop.is_set():
            job.state = "done"
        else:
            if self._closed and job.work.done < job.work.total:
                job.error = _STOPPED
            job.state = "stopped"
        self._look.set()

    # -- telling the store -----------------------------------------------------------------

    def _report(self) -> None:
        while True:
            self._look.wait(_EVERY if self._jobs else None)
            self._look.clear()
            with self._lock:
                jobs, closed = list(self._jobs.values()), self._closed
            for job in jobs:
                try:
                    self._tell(job)
                except Unavailable as error:
                    # I6: the jobs go on; what there is to tell is told when the store is back.
                    log.warning("the store was not told of jobs over dead letters", reason=str(error))
                    break
                except Exception:
                    log.exception("a job over dead letters cannot be told of", job=job.id)
            if closed and not self._jobs:
                return

    def _tell(self, job: _Job) -> None:
        report = job.report()
        if self._store.letter_jobs.tell(job.id, job.work.runner, report):
            job.stop.set()
            with self._lock:
                if job.state == "queued":
                    job.state = "stopped"
                    self._look.set()
        if report.over:
            with self._lock:
                self._jobs.pop(job.id, None)


def _started(name: str, target: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    thread.start()
    return thread
