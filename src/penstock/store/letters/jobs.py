"""Jobs over many dead letters: each is done by the instance that was asked, and every instance knows how far it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.store.database import Database
from penstock.store.jobs import JobRows
from penstock.store.tables import letter_jobs

LetterJobKind = Literal["replay", "discard"]
LetterJobState = Literal["queued", "running", "done", "failed", "stopped"]
_OPEN: Final[tuple[LetterJobState, ...]] = ("queued", "running")
_c = letter_jobs.c


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterJobRow:
    """One replay or discard, from the moment it was asked for. Times are epoch milliseconds."""

    id: str
    kind: LetterJobKind
    asked_by: str
    what: str
    """Which letters, in words."""
    pipelines: dict[str, dict[str, Any]]
    """Those whose letters it takes, each with its figures so far; empty where it may be any."""
    state: LetterJobState
    total: int
    done: int = 0
    note: str | None = None
    """What it waits for."""
    error: str | None = None
    instance: str
    runner: str
    """What it claims letters by."""
    asked_at: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    heartbeat_at: int = 0
    missed_at: int | None = None
    """Since when others wonder whether its runner lives."""
    stop_asked_at: int | None = None
    read_at: int = 0
    """The store's clock when the row was read."""

    @property
    def over(self) -> bool:
        return self.state not in _OPEN

    @property
    def silent_for(self) -> float:
        """Seconds since its runner was heard of."""
        return (self.read_at - self.heartbeat_at) / 1000

    @property
    def missed_for(self) -> float | None:
        """Seconds since somebody noticed the silence; None: nobody has."""
        return None if self.missed_at is None else (self.read_at - self.missed_at) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterJobReport:
    """How far a job is, as its runner tells it."""

    state: LetterJobState
    done: int
    pipelines: dict[str, dict[str, Any]] = field(default_factory=dict)
    note: str | None = None
    error: str | None = None

    @property
    def over(self) -> bool:
        return self.state not in _OPEN


# Within the class, `list` is a method.
Jobs = list[LetterJobRow]


class LetterJobs(JobRows[LetterJobRow]):
    """The repository of jobs over dead letters."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, letter_jobs, LetterJobRow, database.now)

    def add(
        self,
        kind: LetterJobKind,
        *,
        by: str,
        what: str,
        pipelines: Collection[str],
        total: int,
        instance: str,
        runner: str,
        state: LetterJobState = "queued",
    ) -> LetterJobRow:
        """A job that its runner is about to begin."""
        with self._database.write() as connection:
            now = self._now(connection)
            row = LetterJobRow(
                id=new_id(),
                kind=kind,
                asked_by=by,
                what=what,
                pipelines={name: {} for name in pipelines},
                state=state,
                total=total,
                instance=instance,
                runner=runner,
                asked_at=now,
                started_at=None if state == "queued" else now,
                heartbeat_at=now,
            )
            values = asdict(row)
            del values["read_at"]
            connection.execute(sa.insert(letter_jobs), values)
        return replace(row, read_at=now)

    def tell(self, job_id: str, runner: str, report: LetterJobReport) -> bool:
        """How far it is, by the one who runs it: that holds, whatever others made of a silence. Whether somebody wants
        it to stop."""
        with self._database.write() as connection:
            now = self._now(connection)
            values: dict[str, Any] = asdict(report) | {"heartbeat_at": now, "missed_at": None}
            values["ended_at"] = now if report.over else None
            if report.state != "queued":
                values["started_at"] = sa.func.coalesce(_c.started_at, now)
            mine = (_c.id == job_id) & (_c.runner == runner)
            update = sa.update(letter_jobs).where(mine).values(values).returning(_c.stop_asked_at)
            return connection.scalar(update) is not None

    def ask_to_stop(self, job_id: str) -> bool:
        """For its runner to see; False where it has ended."""
        # Not a word of the runner's: its heartbeat stays what it was.
        return self._change(job_id, _c.state.in_(_OPEN), {}, "stop_asked_at")

    def give_up(self, reason: str, *, silent_for: float, missed_for: float, dead: Collection[str] = ()) -> set[str]:
        """Jobs whose runners are known to be dead, or were not heard of for so many seconds, have failed for the
        reason; these runners.

        That a runner is silent is noticed first, and believed so many seconds later: after an outage of the store all
        of them were silent, and those that live say so at once."""
        with self._database.write() as connection:
            now = self._now(connection)
            silent = _c.heartbeat_at < now - int(silent_for * 1000)
            missed = sa.update(letter_jobs).where(_c.state.in_(_OPEN), silent, _c.missed_at.is_(None))
            connection.execute(missed.values(missed_at=now))
            gone = (silent & (_c.missed_at < now - int(missed_for * 1000))) | _c.runner.in_(dead)
            values = {"state": "failed", "error": reason, "note": None, "ended_at": now}
            update = sa.update(letter_jobs).where(_c.state.in_(_OPEN), gone).values(values)
            return set(connection.scalars(update.returning(_c.runner)))

    def open(self) -> Jobs:
        """Those that somebody does, or should do."""
        with self._database.read() as connection:
            return self._read(connection, _c.state.in_(_OPEN))

    def forget(self, *, keep: int, older_than: float) -> int:
        """Delete jobs that ended longer ago than so many seconds, and all but the newest that have ended; how many."""
        ended = sa.select(_c.id).where(_c.ended_at.is_not(None))
        with self._database.read() as connection:
            # Asked all the time, and hardly ever is there one: writers need not wait for the answer.
            edge = connection.scalar(ended.order_by(_c.id.desc()).limit(1).offset(keep))
            old = _c.ended_at < self._now(connection) - int(older_than * 1000)
            if edge is None and connection.scalar(ended.where(old).limit(1)) is None:
                return 0
        with self._database.write() as connection:
            beyond = sa.false() if edge is None else _c.id <= edge
            return connection.execute(sa.delete(letter_jobs).where(_c.ended_at.is_not(None), old | beyond)).rowcount

    def _read(self, connection: sa.Connection, condition: sa.ColumnElement[bool], *, limit: int | None = None) -> Jobs:
        now = self._now(connection)
        return [replace(row, read_at=now) for row in super()._read(connection, condition, limit=limit)]
