"""What the repositories of jobs share: rows by their ids, the newest first, and changes that hold on a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from penstock.store.database import Database

R = TypeVar("R")
# Within the class, `list` is a method.
Rows = list[R]


class JobRows(Generic[R]):
    """Of one table, whose ids grow with time. `now` is its unit of time."""

    def __init__(
        self, database: Database, table: sa.Table, row: Callable[..., R], now: Callable[[sa.Connection], int]
    ) -> None:
        self._database, self._table, self._row, self._now = database, table, row, now

    def get(self, job_id: str) -> R | None:
        with self._database.read() as connection:
            found = self._read(connection, self._table.c.id == job_id)
        return found[0] if found else None

    def list(self, limit: int = 100, before: str | None = None) -> Rows[R]:
        """Newest first; `before` goes on behind the job with this id."""
        behind = sa.true() if before is None else self._table.c.id < before
        with self._database.read() as connection:
            return self._read(connection, behind, limit=limit)

    def _read(
        self, connection: sa.Connection, condition: sa.ColumnElement[bool], *, limit: int | None = None
    ) -> Rows[R]:
        query = sa.select(self._table).where(condition).order_by(self._table.c.id.desc()).limit(limit)
        return [self._row(**row) for row in connection.execute(query).mappings()]

    def _change(self, job_id: str, condition: sa.ColumnElement[bool], values: dict[str, Any], *stamped: str) -> bool:
        """Whether there was a job to change; `stamped` columns get the time of the change."""
        with self._database.write() as connection:
            times = dict.fromkeys(stamped, self._now(connection))
            statement = sa.update(self._table).where(self._table.c.id == job_id, condition)
            return bool(connection.execute(statement.values(times | values)).rowcount)
