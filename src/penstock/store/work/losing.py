"""Runs whose worker is gone: they end as lost, and begin again where their workflow says so."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.work.deriving import Changed, Derive, among, derive_orders
from penstock.store.workflow_tables import runs, snapshots, steps

RERUNS: Final = 3
"""A work order whose runs were lost so often is not tried again: it may be what its workers die of."""

_IN_FLIGHT: Final = sa.text("penstock_runs.state IN ('claimed', 'started')")
_COPIED: Final = (
    "work_order_id",
    "project_id",
    "workflow_id",
    "snapshot_id",
    "starting_step",
    "starting_trigger_id",
    "created_by",
    "dataclip_id",
    "priority",
    "queue",
    "order_key",
    "options",
)
_ERROR_TYPES: Final = {"claimed": "LostAfterClaim", "started": "LostAfterStart"}
_UNKNOWN: Final = "UnknownReason"


class Lost(NamedTuple):
    """A run that was lost, and the one that takes its place."""

    run: str
    error_type: str
    rerun: str | None


class Losses:
    """Finds runs that nobody executes any more."""

    def __init__(self, database: Database, derive: Derive) -> None:
        self._database = database
        self._derive = derive

    def lose(self, tokens: Collection[str]) -> list[Lost]:
        """The workers with these tokens are gone; what they held is lost."""
        return self._lose(runs.c.worker_name.in_(sorted(tokens)), skip_locked=False)

    def lose_silent(self, seconds: float) -> list[Lost]:
        """Runs whose worker has not been heard of for so long are lost."""
        with self._database.read() as connection:
            before = self._database.micros(connection) - int(seconds * 1_000_000)
            silent = sa.func.coalesce(runs.c.heartbeat_at, runs.c.claimed_at, 0) < before
            if connection.execute(sa.select(runs.c.id).where(silent, _IN_FLIGHT).limit(1)).first() is None:
                return []
        return self._lose(silent, skip_locked=True)

    def _lose(self, which: sa.ColumnElement[bool], *, skip_locked: bool) -> list[Lost]:
        with self._database.write() as connection:
            chosen = sa.select(runs).where(which, _IN_FLIGHT).order_by(runs.c.id)
            rows = connection.execute(chosen.with_for_update(skip_locked=skip_locked)).all()
            if not rows:
                return []
            at = self._database.micros(connection)
            for state in {row.state for row in rows}:
                self._end(connection, [row.id for row in rows if row.state == state], state, at)
            self._end_steps(connection, [row.id for row in rows], at)
            again = self._rerun(connection, rows, at)
            changes = [Changed(row.id, row.work_order_id, "lost") for row in rows]
            derive_orders(self._database, connection, self._derive, changes, at)
            return [Lost(row.id, _ERROR_TYPES.get(row.state, _UNKNOWN), again.get(row.id)) for row in rows]

    def _end(self, connection: sa.Connection, ids: Sequence[str], state: str, at: int) -> None:
        values = {"state": "lost", "error_type": _ERROR_TYPES.get(state, _UNKNOWN), "finished_at": at, "updated_at": at}
        connection.execute(sa.update(runs).where(among(self._database, runs.c.id, ids)).values(values))

    def _end_steps(self, connection: sa.Connection, ids: Sequence[str], at: int) -> None:
        unfinished = (among(self._database, steps.c.run_id, ids), steps.c.finished_at.is_(None))
        connection.execute(sa.update(steps).where(*unfinished).values(exit_reason="lost", finished_at=at))

    def _rerun(self, connection: sa.Connection, rows: Sequence[sa.Row[Any]], at: int) -> dict[str, str]:
        """New runs in the place of those whose workflow wants it, by the lost one."""
        rerunning = self._rerunning(connection, rows)
        wanted = [row for row in rows if row.snapshot_id in rerunning]
        lost = self._lost_before(connection, [row.work_order_id for row in wanted])
        again = {row.id: _next_id(row.id) for row in wanted if lost[row.work_order_id] <= RERUNS}
        fresh = [
            {name: getattr(row, name) for name in _COPIED}
            | {"id": again[row.id], "state": "available", "inserted_at": at, "updated_at": at}
            for row in wanted
            if row.id in again
        ]
        if fresh:
            connection.execute(sa.insert(runs), fresh)
        return again

    def _rerunning(self, connection: sa.Connection, rows: Sequence[sa.Row[Any]]) -> set[str]:
        ids = list({row.snapshot_id for row in rows})
        found = sa.select(snapshots.c.id, snapshots.c.definition).where(among(self._database, snapshots.c.id, ids))
        return {row.id for row in connection.execute(found) if row.definition.get("on_lost") == "rerun"}

    def _lost_before(self, connection: sa.Connection, orders: Sequence[str]) -> dict[str, int]:
        if not orders:
            return {}
        found = (
            sa.select(runs.c.work_order_id, sa.func.count().label("lost"))
            .where(among(self._database, runs.c.work_order_id, orders), runs.c.state == "lost")
            .group_by(runs.c.work_order_id)
        )
        return {row.work_order_id: row.lost for row in connection.execute(found)}


def _next_id(run: str) -> str:
    """The id right behind: the new run takes the place of the lost one among those of its order key."""
    return str(uuid.UUID(int=uuid.UUID(run).int + 1))
