"""Discards of many dead letters, each on a thread of its own, remembered for as long as the process lives."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from penstock.core.clock import SYSTEM, format_time
from penstock.core.errors import PenstockError
from penstock.service.operations.letter_models import JobView

log = structlog.get_logger("penstock.discard")

_KEPT: Final = 200
Work = Callable[[Callable[[int], None]], int]


class _Stopped(Exception):
    """Somebody wants it to end early."""


@dataclass(slots=True)
class Discard:
    """One of them."""

    id: int
    by: str
    what: str
    letters: int
    pipelines: frozenset[str]
    """Those whose letters it takes, where that is known."""
    asked_at: int
    done: int = 0
    ended_at: int | None = None
    state: Literal["running", "done", "failed", "stopped"] = "running"
    error: str | None = None
    asked_to_stop: bool = False

    def view(self) -> JobView:
        return JobView(
            id=f"discard-{self.id}",
            kind="discard",
            by=self.by,
            what=self.what,
            state=self.state,
            letters=self.letters,
            done=self.done,
            asked_at=format_time(self.asked_at),
            started_at=format_time(self.asked_at),
            ended_at=None if self.ended_at is None else format_time(self.ended_at),
            error=self.error,
        )


class Discards:
    """Begins and remembers them."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._jobs: dict[int, Discard] = {}
        self._lock = threading.Lock()

    def start(self, work: Work, *, by: str, what: str, letters: int, pipelines: frozenset[str]) -> Discard:
        """`work` is given a function to tell how far it has come."""
        with self._lock:
            job = Discard(next(self._ids), by, what, letters, pipelines, SYSTEM.now_ms())
            self._jobs[job.id] = job
            for old in [each.id for each in self._jobs.values() if each.state != "running"][:-_KEPT]:
                del self._jobs[old]
        threading.Thread(target=_run, args=(job, work), name=f"discard-{job.id}", daemon=True).start()
        return job

    def get(self, job_id: int) -> Discard | None:
        return self._jobs.get(job_id)

    def all(self) -> list[Discard]:
        """Newest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: -job.id)


def _run(job: Discard, work: Work) -> None:
    def progress(done: int) -> None:
        job.done = done
        if job.asked_to_stop:
            raise _Stopped

    try:
        job.done = work(progress)
        job.state = "done"
    except _Stopped:
        job.state = "stopped"
    except PenstockError as error:
        job.state, job.error = "failed", str(error)
    except Exception as error:
        log.exception("a discard ended badly", job=job.id)
        job.state, job.error = "failed", f"{type(error).__name__}: {error}"
    finally:
        job.ended_at = SYSTEM.now_ms()
