"""Runs whose worker is gone: they end as lost, and are run again where their workflow says so."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import Unavailable
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


class _Seen(NamedTuple):
    """The last heartbeat that this process has read of a run."""

    heartbeat: int
    since: float
    """Monotonic time at which it was read first."""


class Losses:
    """Ends runs whose worker is gone. One per instance; `lose_silent` and `note_outage` belong to one thread."""

    def __init__(self, database: Database, derive: Derive, clock: Clock = SYSTEM) -> None:
        self._database = database
        self._derive = derive
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        """By run in flight."""
        self._looked_at: float | None = None
        """Monotonic time of the last look that reached the store; None: the look before failed."""

    def lose(self, tokens: Collection[str]) -> list[Lost]:
        """The workers with these tokens are gone: their runs are lost."""
        with self._database.write() as connection:
            held = sa.select(runs).where(runs.c.worker_name.in_(sorted(tokens)), _IN_FLIGHT).order_by(runs.c.id)
            return self._lose(connection, connection.execute(held.with_for_update()).all())

    def lose_silent(self, seconds: float) -> list[Lost]:
        """Runs whose heartbeat has not changed for so long are lost. To be called several times within that time.

        L6: silence counts only while this process reaches the store, for writing too, without a break: during an
        outage no worker can write a heartbeat. It is measured on this process's monotonic clock, as the time for which
        a heartbeat keeps its value, so that no step of a wall clock makes a run silent.
        """
        try:
            silent = self._silent(seconds)
            return self._lose_unchanged(silent) if silent else []
        except Unavailable:
            self.note_outage()
            raise

    def note_outage(self) -> None:
        """The store could not be reached: every silence is measured anew from the next look that reaches it."""
        self._seen.clear()
        self._looked_at = None

    def _silent(self, seconds: float) -> dict[str, _Seen]:
        """Note the heartbeats of all runs in flight; those that have not changed for so long."""
        heartbeats = self._heartbeats()
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at > seconds / 3:
            # The call has waited for a lock, or this process was suspended: the store was perhaps not there meanwhile.
            self._seen.clear()
        self._looked_at = now
        before = self._seen
        self._seen = {run: _Seen(heartbeat, now) for run, heartbeat in heartbeats.items()}
        self._seen |= {run: seen for run, seen in before.items() if heartbeats.get(run) == seen.heartbeat}
        return {run: seen for run, seen in self._seen.items() if now - seen.since > seconds}

    def _heartbeats(self) -> dict[str, int]:
        chosen = sa.select(runs.c.id, runs.c.heartbeat_at, runs.c.claimed_at).where(_IN_FLIGHT)
        with self._database.read() as connection:
            found = {row.id: _heartbeat(row) for row in connection.execute(chosen)}
        if any(seen.heartbeat == found.get(run) for run, seen in self._seen.items()):
            # A store that can be read may refuse writes, and heartbeats with them: a lock of SQLite, a standby.
            with self._database.write() as connection:
                connection.execute(chosen.limit(1).with_for_update(skip_locked=True))
        return found

    def _lose_unchanged(self, silent: Mapping[str, _Seen]) -> list[Lost]:
        with self._database.write() as connection:
            mine = sa.select(runs).where(among(self._database, runs.c.id, list(silent)), _IN_FLIGHT)
            rows = connection.execute(mine.order_by(runs.c.id).with_for_update(skip_locked=True)).all()
            # A heartbeat may have been written since they were read.
            return self._lose(connection, [row for row in rows if _heartbeat(row) == silent[row.id].heartbeat])

    def _lose(self, connection: sa.Connection, rows: Sequence[sa.Row[Any]]) -> list[Lost]:
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


def _heartbeat(row: Any) -> int:
    return int(row.heartbeat_at or row.claimed_at or 0)


def _next_id(run: str) -> str:
    """The id right behind: the new run takes the place of the lost one among those of its order key."""
    return str(uuid.UUID(int=uuid.UUID(run).int + 1))
