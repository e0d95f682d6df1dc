"""Runs and log lines as lists of their own, whatever work order they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from penstock.core.ids import first_id, is_id
from penstock.store.database import Database
from penstock.store.work.history_model import Count, LogRow, RunRow
from penstock.store.work.pages import among_ids
from penstock.store.work.states import RunState
from penstock.store.workflow_tables import log_lines, runs

Condition = sa.ColumnElement[bool]

# Within the class, `list` is a method.
Runs = list[RunRow]
Conditions = list[Condition]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs; what is None or empty does not matter. Times are epoch microseconds."""

    project_id: str | None = None
    workflow_id: str | None = None
    work_order_id: str | None = None
    states: tuple[RunState, ...] = ()
    inserted_after: int | None = None
    """At this time or later."""
    inserted_before: int | None = None
    updated_after: int | None = None
    updated_before: int | None = None
    ids: tuple[str, ...] = ()


class RunLists:
    """Newest first: ids grow with time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, which: RunFilter, *, limit: int, after: str | None = None, skip: int = 0) -> Runs:
        """`after` goes on behind the run of this id."""
        query = sa.select(runs).where(*self._conditions(which)).order_by(runs.c.id.desc()).limit(limit).offset(skip)
        if after is not None:
            query = query.where(runs.c.id < after)
        with self._database.read() as connection:
            return [RunRow(**row) for row in connection.execute(query).mappings()]

    def count(self, which: RunFilter, *, cap: int) -> Count:
        return self._count(sa.select(runs.c.id).where(*self._conditions(which)), cap)

    def logs(self, which: RunFilter, *, ids: Sequence[str] = (), limit: int, skip: int = 0) -> tuple[LogRow, ...]:
        """Lines of these runs, or only those of these `ids`."""
        query = self._lines(which, ids, sa.select(log_lines)).order_by(log_lines.c.id.desc()).limit(limit).offset(skip)
        with self._database.read() as connection:
            return tuple(LogRow(**row) for row in connection.execute(query).mappings())

    def count_logs(self, which: RunFilter, *, ids: Sequence[str] = (), cap: int) -> Count:
        return self._count(self._lines(which, ids, sa.select(log_lines.c.id)), cap)

    def _count(self, query: sa.Select[Any], cap: int) -> Count:
        with self._database.read() as connection:
            number = connection.scalar(sa.select(sa.func.count()).select_from(query.limit(cap + 1).subquery())) or 0
        return Count(min(number, cap), is_capped=number > cap)

    def _lines(self, which: RunFilter, ids: Sequence[str], query: sa.Select[Any]) -> sa.Select[Any]:
        query = query.join(runs, runs.c.id == log_lines.c.run_id).where(*self._conditions(which))
        return query.where(among_ids(self._database, log_lines.c.id, ids)) if ids else query

    def _conditions(self, which: RunFilter) -> Conditions:
        c = runs.c
        owners = {
            c.project_id: which.project_id,
            c.workflow_id: which.workflow_id,
            c.work_order_id: which.work_order_id,
        }
        given = {column: value for column, value in owners.items() if value is not None}
        if any(not is_id(value) for value in given.values()):
            return [sa.false()]  # nothing has such an id, and PostgreSQL would not even compare it
        found: Conditions = [column == value.lower() for column, value in given.items()]
        if which.ids:
            found.append(among_ids(self._database, c.id, which.ids))
        if which.states:
            found.append(c.state.in_(which.states))
        if which.inserted_after is not None:
            found.append(c.id >= first_id(which.inserted_after))
        if which.inserted_before is not None:
            found.append(c.id < first_id(which.inserted_before))
        if which.updated_after is not None:
            found.append(c.updated_at >= which.updated_after)
        if which.updated_before is not None:
            found.append(c.updated_at < which.updated_before)
        return found
