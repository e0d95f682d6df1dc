"""How writers put rows into tables: by key, only into columns that a table has, with bound parameters only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from penstock.tables.errors import TargetUnavailable

Row = Mapping[str, Any]


class TableColumns:
    """Which columns the tables of one database really have: older installations lack some of ours."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    def has_table(self, connection: sa.Connection, table: sa.Table) -> bool:
        """A missing table is asked for each time, for it may be made at any moment."""
        if table.name in self._known:
            return True
        inspector = sa.inspect(connection)
        if not inspector.has_table(table.name):
            return False
        self._known[table.name] = frozenset(column["name"] for column in inspector.get_columns(table.name))
        return True

    def fitting(self, connection: sa.Connection, table: sa.Table, row: Row) -> dict[str, Any]:
        """The row without what the table has no column for."""
        if not self.has_table(connection, table):
            # No event is to blame for it: all of them wait until it is there.
            raise TargetUnavailable(
                f"there is no table {table.name}", hint="`penstock db create-staging` makes the tables"
            )
        known = self._known[table.name]
        return {name: value for name, value in row.items() if name in known}


class Rows:
    """The tables of a transaction."""

    def __init__(self, connection: sa.Connection, columns: TableColumns) -> None:
        self.connection = connection
        self._columns = columns

    def has(self, table: sa.Table) -> bool:
        return self._columns.has_table(self.connection, table)

    def insert(self, table: sa.Table, rows: Sequence[Row]) -> None:
        if rows:
            fitting = [self._columns.fitting(self.connection, table, row) for row in rows]
            self.connection.execute(sa.insert(table), fitting)

    def upsert(self, table: sa.Table, keys: Sequence[str], row: Row, *, once: Sequence[str] = ()) -> None:
        """Insert the row, or set its columns in the one of the same keys; `once`: columns that only an insert sets."""
        fitting = self._columns.fitting(self.connection, table, row)
        changed = [name for name in fitting if name not in keys and name not in once]
        self.connection.execute(_upsert(self.connection.dialect.name, table, keys, list(fitting), changed), fitting)

    def replace(self, table: sa.Table, where: Row, rows: Sequence[Row]) -> None:
        """Delete what fits `where`, then insert the rows."""
        self._columns.fitting(self.connection, table, where)
        self.connection.execute(sa.delete(table).where(*_equal(table, where)))
        self.insert(table, rows)

    def update(self, table: sa.Table, where: Row, values: Row) -> None:
        fitting = self._columns.fitting(self.connection, table, values)
        self.connection.execute(sa.update(table).where(*_equal(table, where)).values(fitting))

    def select(self, table: sa.Table, columns: Sequence[str], where: Row) -> list[dict[str, Any]]:
        found = self.connection.execute(sa.select(*(table.c[name] for name in columns)).where(*_equal(table, where)))
        return [dict(row) for row in found.mappings()]


def _equal(table: sa.Table, where: Row) -> list[sa.ColumnElement[bool]]:
    # `IS NOT DISTINCT FROM` would say both at once, but PostgreSQL uses no index for it.
    return [table.c[name].is_(None) if value is None else table.c[name] == value for name, value in where.items()]


def _upsert(
    dialect: str, table: sa.Table, keys: Sequence[str], names: Sequence[str], changed: Sequence[str]
) -> sa.Executable:
    statement: Any
    if dialect in ("mysql", "mariadb"):
        statement = mysql.insert(table).values({name: sa.bindparam(name) for name in names})
        set_to = {name: statement.inserted[name] for name in changed} or {keys[0]: table.c[keys[0]]}
        return statement.on_duplicate_key_update(set_to)  # type: ignore[no-any-return]  # the three differ
    make = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = make(table).values({name: sa.bindparam(name) for name in names})
    if not changed:
        return statement.on_conflict_do_nothing(index_elements=keys)  # type: ignore[no-any-return]  # as above
    set_to = {name: statement.excluded[name] for name in changed}
    return statement.on_conflict_do_update(index_elements=keys, set_=set_to)  # type: ignore[no-any-return]  # as above
