"""What projects do not want to keep: bodies are wiped, old work orders deleted, a bounded piece at a time.

Every piece is found by an index or by a position in the order of ids; none looks at the whole history. Instances may
all do it at once: what one has wiped or deleted, another finds done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.core.ids import first_id
from penstock.store.database import Database
from penstock.store.upsert import upsert
from penstock.store.work.history_model import WorkOrderCursor, WorkOrderFilter
from penstock.store.work.pages import among_ids, page
from penstock.store.work.search import WorkSearch
from penstock.store.work.states import ENDED, FINAL, WorkOrderState
from penstock.store.workflow_tables import dataclips, log_lines, positions, projects, runs, steps, work_orders

_BATCH: Final = 500
"""Work orders per transaction: others wait for its locks."""
_LINES: Final = 20_000
"""Log lines that are deleted at once; a run may have any number."""
_WALK: Final = 100_000
"""Dataclips that are passed in one go on the way through those of all projects."""
_DAY: Final = 86_400_000_000
_SETTLED: Final = 60_000_000
"""Microseconds: what was active later may have an elder beside it whose transaction has not ended yet."""
_PASSING: Final = ("kafka", "http_request", "step_result")
"""Types of dataclips that belong to one work order; the others were saved by someone, for more than one."""

_d = dataclips.c
_UNWIPED: Final = _d.wiped_at.is_(None) & _d.name.is_(None)
"""What has a name was saved to be kept."""


class Swept(NamedTuple):
    """What one piece of work came to."""

    deleted: int = 0
    """Work orders."""
    wiped: int = 0
    """Dataclips."""
    has_more: bool = False
    """Whether to go on at once."""


class Retention:
    """The housekeeping side of history."""

    def __init__(self, database: Database, search: WorkSearch) -> None:
        self._database = database
        self._search = search

    def sweep(self) -> Swept:
        """One piece of each kind of work, for each project that wants any."""
        with self._database.read() as connection:
            c = projects.c
            wants = (c.retention_policy != "retain_all") | sa.func.coalesce(
                c.history_retention, c.dataclip_retention
            ).is_not(None)
            found = list(connection.execute(sa.select(projects).where(wants).order_by(c.id)))
        pieces = []
        for project in found:
            if project.history_retention is not None:
                pieces.append(self.delete_old(project.id, project.history_retention))
            if project.dataclip_retention is not None:
                pieces.append(self.wipe_old(project.id, project.dataclip_retention))
            if project.retention_policy == "erase_all":
                pieces.append(self.wipe_ended(project.id, FINAL))
            elif project.retention_policy == "retain_with_errors":
                pieces.append(self.wipe_ended(project.id, ("success",)))
        return Swept(
            sum(piece.deleted for piece in pieces),
            sum(piece.wiped for piece in pieces),
            has_more=any(piece.has_more for piece in pieces),
        )

    def delete_old(self, project_id: str, days: int) -> Swept:
        """Delete work orders that have ended and were last active before the period, with all that is theirs."""
        with self._held() as connection:
            before = self._database.micros(connection) - days * _DAY
            ids = self._ended(connection, project_id, ENDED, before, None)
            if not ids:
                return Swept()
            if self._delete_lines(connection, ids):
                return Swept(has_more=True)
            self._delete(connection, ids)
            return Swept(deleted=len(ids), has_more=len(ids) == _BATCH)

    def wipe_old(self, project_id: str, days: int) -> Swept:
        """Empty dataclips that were made before the period; their metadata and coordinates stay."""
        name = f"wipe/{project_id}"
        with self._database.read() as connection:
            until = first_id(self._database.micros(connection) - days * _DAY)
            begin = _position(connection, name) or first_id(0)
            ahead = sa.select(_d.id).where(_d.id > begin, _d.id < until).order_by(_d.id).limit(_WALK).subquery()
            last, passed = connection.execute(
                sa.select(sa.func.max(sa.cast(ahead.c.id, sa.Text)), sa.func.count())
            ).one()
            if last is None:
                return Swept()
            mine = (_d.id > begin) & (_d.id <= last) & (_d.project_id == project_id)
            wanted = sa.select(_d.id).where(mine, _UNWIPED, _d.type != "global").order_by(_d.id).limit(_BATCH)
            ids = list(connection.scalars(wanted))
        full = len(ids) == _BATCH
        with self._held() as connection:
            wiped = self._wipe(connection, ids)
            self._move(connection, name, ids[-1] if full else last)
        return Swept(wiped=wiped, has_more=full or passed == _WALK)

    def wipe_ended(self, project_id: str, states: Sequence[WorkOrderState]) -> Swept:
        """Empty the dataclips of work orders that have ended in one of these states since the last time."""
        name = f"erase/{project_id}"
        with self._held() as connection:
            known = _position(connection, name)
            after = WorkOrderCursor(int(known.split()[0]), known.split()[1]) if known else None
            before = self._database.micros(connection) - _SETTLED
            ids = self._ended(connection, project_id, states, before, after)
            if not ids:
                return Swept()
            of_orders = self._dataclips(connection, ids)
            mine = among_ids(self._database, _d.id, of_orders)
            wanted = sa.select(_d.id).where(mine, _UNWIPED, _d.type.in_(_PASSING))
            wiped = self._wipe(connection, list(connection.scalars(wanted)))
            c = work_orders.c
            last = connection.scalar(sa.select(c.last_activity).where(c.id == ids[-1]))
            self._move(connection, name, f"{last} {ids[-1]}")
            return Swept(wiped=wiped, has_more=len(ids) == _BATCH)

    @contextmanager
    def _held(self) -> Iterator[sa.Connection]:
        """A transaction beside which nothing is indexed; it begins so, for two that lock rows first lock each other."""
        with self._database.write() as connection:
            self._search.hold(connection)
            yield connection

    def _ended(
        self,
        connection: sa.Connection,
        project_id: str,
        states: Sequence[WorkOrderState],
        before: int,
        after: WorkOrderCursor | None,
    ) -> list[str]:
        which = WorkOrderFilter(project_id=project_id, states=tuple(states), active_before=before)
        return page(self._database, connection, which, order="activity", limit=_BATCH, after=after, oldest_first=True)

    def _wipe(self, connection: sa.Connection, ids: Sequence[str]) -> int:
        if not ids:
            return 0
        mine = among_ids(self._database, _d.id, ids) & _d.wiped_at.is_(None)
        values = {"body": None, "raw": None, "wiped_at": self._database.micros(connection)}
        wiped = connection.execute(sa.update(dataclips).where(mine).values(values)).rowcount
        self._search.forget(connection, parts=ids)
        return wiped

    def _delete_lines(self, connection: sa.Connection, ids: Sequence[str]) -> bool:
        """Delete the log lines of work orders; True where there are more."""
        mine = log_lines.c.run_id.in_(self._runs(ids))
        some = list(connection.scalars(sa.select(log_lines.c.id).where(mine).limit(_LINES)))
        self._search.forget(connection, parts=some)
        connection.execute(sa.delete(log_lines).where(among_ids(self._database, log_lines.c.id, some)))
        return len(some) == _LINES

    def _delete(self, connection: sa.Connection, ids: Sequence[str]) -> None:
        clips = self._dataclips(connection, ids)
        self._search.forget(connection, orders=ids)
        passing = among_ids(self._database, _d.id, clips) & _d.type.in_(_PASSING) & _d.name.is_(None)
        connection.execute(sa.delete(dataclips).where(passing))
        connection.execute(sa.delete(steps).where(steps.c.run_id.in_(self._runs(ids))))
        connection.execute(sa.delete(runs).where(among_ids(self._database, runs.c.work_order_id, ids)))
        connection.execute(sa.delete(work_orders).where(among_ids(self._database, work_orders.c.id, ids)))

    def _runs(self, ids: Sequence[str]) -> sa.Select[Any]:
        return sa.select(runs.c.id).where(among_ids(self._database, runs.c.work_order_id, ids))

    def _dataclips(self, connection: sa.Connection, ids: Sequence[str]) -> list[str]:
        """All that work orders, their runs and their steps refer to."""
        of_steps = steps.c.run_id.in_(self._runs(ids))
        asked = (
            sa.select(work_orders.c.dataclip_id).where(among_ids(self._database, work_orders.c.id, ids)),
            sa.select(runs.c.dataclip_id, runs.c.final_dataclip_id).where(
                among_ids(self._database, runs.c.work_order_id, ids)
            ),
            sa.select(steps.c.input_dataclip_id, steps.c.output_dataclip_id).where(of_steps),
        )
        return list({clip for query in asked for row in connection.execute(query) for clip in row if clip})

    def _move(self, connection: sa.Connection, name: str, position: str) -> None:
        row = {"name": name, "position": position, "updated_at": self._database.micros(connection)}
        connection.execute(upsert(self._database, positions), row)


def _position(connection: sa.Connection, name: str) -> str | None:
    return connection.scalar(sa.select(positions.c.position).where(positions.c.name == name))
