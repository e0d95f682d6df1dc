"""Chunks of bulk jobs: what is done to the work orders and how far the job has come are one transaction, so that a job
that is interrupted goes on behind the last one and does nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.work.deriving import Derive
from penstock.store.work.orders import cancel_in, retry_in
from penstock.store.workflow_tables import bulk_jobs, runs

_c = bulk_jobs.c


class Holder(NamedTuple):
    """A job and who works on it."""

    job_id: str
    worker: str


class Bulk:
    """Works on the jobs that its caller has claimed."""

    def __init__(self, database: Database, derive: Derive) -> None:
        self._database = database
        self._derive = derive

    def retry(self, holder: Holder, ids: Sequence[str], *, step: str | None, by: str | None) -> bool:
        """Run these work orders again; False where the job is no longer the holder's, and nothing was done."""

        def work(connection: sa.Connection) -> int:
            answers = retry_in(self._database, connection, ids, step=step, by=by)
            return sum(answer.run_id is not None for answer in answers)

        return self._chunk(holder, ids, work)

    def cancel(self, holder: Holder, ids: Sequence[str]) -> bool:
        """Take back the runs of these work orders that have not begun; False as above."""

        def work(connection: sa.Connection) -> int:
            gone = cancel_in(self._database, connection, self._derive, ids)
            orders = sa.select(sa.func.count(sa.distinct(runs.c.work_order_id))).where(runs.c.id.in_(gone))
            return connection.scalar(orders) or 0

        return self._chunk(holder, ids, work)

    def _chunk(self, holder: Holder, ids: Sequence[str], work: Callable[[sa.Connection], int]) -> bool:
        mine = (_c.id == holder.job_id) & (_c.claimed_by == holder.worker) & (_c.state == "running")
        with self._database.write() as connection:
            now = self._database.micros(connection)
            held = connection.execute(sa.update(bulk_jobs).where(mine).values(heartbeat_at=now, updated_at=now))
            if not held.rowcount:
                return False
            done = work(connection)
            counts = {"done": _c.done + done, "skipped": _c.skipped + len(ids) - done, "position": ids[-1]}
            connection.execute(sa.update(bulk_jobs).where(mine).values(counts))
        return True
