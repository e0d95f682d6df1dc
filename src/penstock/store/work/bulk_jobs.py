"""Jobs over many work orders: one worker at a time goes on with each, wherever it was left."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.store.database import Database
from penstock.store.jobs import JobRows
from penstock.store.work.model import BulkJobRow
from penstock.store.workflow_tables import bulk_jobs

OPEN: Final = ("waiting", "running")
"""States of jobs that someone works on, or should."""

_STAMPED: Final = ("heartbeat_at", "updated_at")

_c = bulk_jobs.c


class BulkJobs(JobRows[BulkJobRow]):
    """The repository of bulk jobs."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, bulk_jobs, BulkJobRow, database.micros)

    def add(
        self, kind: str, request: dict[str, Any], *, total: int, asked_by: str | None = None, state: str = "waiting"
    ) -> BulkJobRow:
        """A job that waits for someone to do it, or, in another state, a record of what was done."""
        with self._database.write() as connection:
            now = self._database.micros(connection)
            given = BulkJobRow(id=new_id(), kind=kind, request=request, state=state, total=total, asked_by=asked_by)
            row = replace(given, inserted_at=now, updated_at=now)
            connection.execute(sa.insert(bulk_jobs), asdict(row))
        return row

    def claim(self, worker: str, *, stale_after: float) -> BulkJobRow | None:
        """The oldest open job that nobody works on, or whose worker was not heard of for so many seconds."""
        with self._database.read() as connection:
            # Asked all the time, and hardly ever is there one: writers need not wait for the answer.
            if connection.scalar(sa.select(_c.id).where(_c.state.in_(OPEN)).limit(1)) is None:
                return None
        with self._database.write() as connection:
            now = self._database.micros(connection)
            left = (_c.claimed_by.is_(None)) | (_c.heartbeat_at < now - int(stale_after * 1e6))
            query = sa.select(_c.id).where(_c.state.in_(OPEN), left).order_by(_c.id).limit(1)
            found = connection.scalar(query.with_for_update(skip_locked=True))
            if found is None:
                return None
            taken = {"state": "running", "claimed_by": worker, "heartbeat_at": now, "updated_at": now}
            connection.execute(sa.update(bulk_jobs).where(_c.id == found).values(taken))
            return BulkJobRow(**connection.execute(sa.select(bulk_jobs).where(_c.id == found)).mappings().one())

    def advance(self, job_id: str, worker: str, *, done: int, skipped: int, position: str | None) -> bool:
        """Note how far the worker has come; False where the job is no longer its own, or was stopped."""
        values = {"done": done, "skipped": skipped, "position": position}
        return self._change(job_id, (_c.claimed_by == worker) & (_c.state == "running"), values, *_STAMPED)

    def finish(self, job_id: str, worker: str, state: str = "done") -> bool:
        """End the job; False as above."""
        mine = (_c.claimed_by == worker) & (_c.state == "running")
        return self._change(job_id, mine, {"state": state, "claimed_by": None}, *_STAMPED)

    def release(self, job_id: str, worker: str) -> bool:
        """Leave the job to whoever comes next; False as above."""
        mine = (_c.claimed_by == worker) & (_c.state == "running")
        return self._change(job_id, mine, {"state": "waiting", "claimed_by": None}, *_STAMPED)

    def stop(self, job_id: str) -> bool:
        """End a job that is open, whoever works on it."""
        return self._change(job_id, _c.state.in_(OPEN), {"state": "stopped", "claimed_by": None}, *_STAMPED)
