"""Replays of dead letters that faces begin and watch: one after the other, on the Spark of the running instance."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, format_time
from penstock.core.errors import ConfigError, PenstockError, Unavailable
from penstock.engine.spark import Spark
from penstock.service.replay import Edit, LetterPlan, LetterReplay, plan_letters
from penstock.service.replayers import own_name, release_orphans
from penstock.store import Store, Which

log = structlog.get_logger("penstock.replay")

JobState = Literal["queued", "running", "done", "failed", "stopped"]

_KEPT: Final = 200
"""Jobs that are remembered; the oldest that have ended are forgotten beyond that."""


class NoSparkYet(Unavailable):
    """The instance that would replay is not running, or has not started yet."""

    code = "no_spark"


@dataclass(slots=True)
class Job:
    """One replay, from the moment it was asked for."""

    id: int
    by: str
    replay: LetterReplay
    what: str
    """Which letters, in words."""
    asked_at: int
    """Epoch milliseconds, as the others."""
    started_at: int | None = None
    ended_at: int | None = None
    state: JobState = "queued"
    error: str | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        return self.state in ("done", "failed", "stopped")

    @property
    def total(self) -> int:
        return self.replay.total

    @property
    def done(self) -> int:
        return self.replay.done

    @property
    def halted(self) -> str | None:
        """Why a pipeline's replay ended by itself before its end."""
        return next((ended.halted for ended in self.replay.ended.values() if ended.halted), None)

    def as_dict(self) -> dict[str, Any]:
        """The job as data, for the API."""
        times = {name: getattr(self, name) for name in ("asked_at", "started_at", "ended_at")}
        return (
            {"id": self.id, "by": self.by, "what": self.what, "state": self.state}
            | {name: None if at is None else format_time(at) for name, at in times.items()}
            | {"note": self.replay.note, "error": self.error or self.halted}
            | self.replay.as_dict()
        )


class ReplayJobs:
    """Begins replays and remembers them for as long as the process lives; what they did to letters is in the store."""

    def __init__(
        self,
        store: Store,
        *,
        spark: Callable[[], Spark | None],
        specs: Callable[[], Mapping[str, PipelineSpec]],
        max_replays: int,
    ) -> None:
        self._store, self._spark, self._specs, self._max_replays = store, spark, specs, max_replays
        self._ids = itertools.count(1)
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def plan(self, which: Which, edit: Edit | None = None) -> LetterPlan:
        """What a replay would do; refuses what cannot be replayed, and changes nothing."""
        return plan_letters(self._store, which, [], edit, running=self._specs())

    def start(
        self, which: Which, *, by: str, what: str = "", edit: Edit | None = None, rate: float | None = None
    ) -> Job:
        """Begin, or wait for the one that runs; refuses what cannot be replayed."""
        if self._spark() is None:
            raise NoSparkYet("the instance has not started yet", hint="try again when its pipelines run")
        release_orphans(self._store, own_name())
        plan = self.plan(which, edit)
        if not plan.letters:
            raise ConfigError("there are no letters to replay", hint="replayed ones are taken by their id only")
        replay = LetterReplay(plan, self._store, self._max_replays, rate, edit)
        with self._lock:
            job = Job(next(self._ids), by, replay, what, SYSTEM.now_ms())
            self._jobs[job.id] = job
            self._forget()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="replay-jobs", daemon=True)
                self._thread.start()
        self._waiting.put(job)
        return job

    def get(self, job_id: int) -> Job:
        """An error where there is none."""
        job = self._jobs.get(job_id)
        if job is None:
            raise ConfigError("no such replay", received=job_id, hint="replays are forgotten when the instance stops")
        return job

    def list(self) -> list[Job]:
        """Newest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: -job.id)

    def stop(self, job_id: int) -> Job:
        """Let it end early, in good order: letters that were not reached are free again."""
        job = self.get(job_id)
        job.stop.set()
        return job

    def close(self, timeout: float = 15.0) -> None:
        """Stop all of them, and wait for the one that runs."""
        for job in self.list():
            job.stop.set()
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(timeout)

    def _forget(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.over]
        for job_id in ended[: max(0, len(self._jobs) - _KEPT)]:
            del self._jobs[job_id]

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            self._run(job)

    def _run(self, job: Job) -> None:
        job.started_at = SYSTEM.now_ms()
        spark = self._spark()
        try:
            if job.stop.is_set():
                return
            if spark is None:
                raise NoSparkYet("the instance has stopped")
            job.state = "running"
            job.replay.run(spark, job.stop)
        except PenstockError as error:
            job.error = str(error)
        except Exception as error:
            log.exception("a replay ended badly", job=job.id)
            job.error = f"{type(error).__name__}: {error}"
        finally:
            job.ended_at = SYSTEM.now_ms()
            if job.error or job.halted:
                job.state = "failed"
            else:
                job.state = "stopped" if job.stop.is_set() else "done"
