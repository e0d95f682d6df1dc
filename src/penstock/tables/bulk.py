"""Writing many rows at once, in each database's fastest way: COPY and one statement on PostgreSQL, statements over many
rows elsewhere."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.tables.errors import wrapped
from penstock.tables.shape import Row, Shape
from penstock.tables.target import Target

_PARAMETERS: Final = 10_000
"""Of one statement; SQLite takes three times as many, MySQL counts bytes."""


class Bulk(ABC):
    """Writes rows of one shape; each call within a transaction of the caller's."""

    def __init__(self, target: Target, shape: Shape) -> None:
        quote = target.preparer.quote
        self.shape = shape
        self._table = target.preparer.format_table(shape.table)
        self._names = [quote(name) for name in shape.names]
        self._keys = [quote(name) for name in shape.keys]
        self._others = [name for name in self._names if name not in self._keys]
        self._newest = quote(shape.newest) if shape.newest else None
        self._key_places = shape.places(shape.keys)
        self._newest_place = shape.places([shape.newest])[0] if shape.newest else None
        self._nullable = {quote(name) for name in shape.keys if shape.table.c[name].nullable}

    def write(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        """Write all of them, or raise what the database says."""
        if rows:
            self._write(connection, list(rows) if self.shape.mode == "append" else self._last_of_each(rows))

    def _last_of_each(self, rows: Sequence[Row]) -> list[Row]:
        """Of rows with equal keys the one that would be left: no statement takes the same key twice."""
        places, newest = self._key_places, self._newest_place
        left: dict[Row, Row] = {}
        for row in rows:
            key = tuple(row[place] for place in places)
            if newest is not None and key in left and _is_older(row[newest], left[key][newest]):
                continue
            left[key] = row
        return list(left.values())

    @abstractmethod
    def _write(self, connection: sa.Connection, rows: list[Row]) -> None: ...

    def _columns(self) -> str:
        return ", ".join(self._names)

    def _conflict(self) -> str:
        """What an insert does where the key is there already."""
        if self.shape.mode not in ("upsert", "latest"):
            return ""
        keys = ", ".join(self._keys)
        if not self._others:
            return f" ON CONFLICT ({keys}) DO NOTHING"
        changes = ", ".join(f"{name} = excluded.{name}" for name in self._others)
        there = f"{self._table}.{self._newest}"
        newer = f" WHERE {there} IS NULL OR excluded.{self._newest} >= {there}" if self._newest else ""
        return f" ON CONFLICT ({keys}) DO UPDATE SET {changes}{newer}"


class _Postgres(Bulk):
    def __init__(self, target: Target, shape: Shape) -> None:
        super().__init__(target, shape)
        # Rows of one table may have other columns each time, and connections are shared: each choice of columns and
        # types has a table to pass through.
        columns_of = [f"{name} {shape.table.c[name].type!r}" for name in shape.names]
        kind = zlib.crc32("\0".join([shape.table.fullname, *columns_of]).encode())
        self._passing = target.preparer.quote(f"penstock_{shape.table.name[:40]}_{kind:08x}")
        columns = self._columns()
        self._make = (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {self._passing} ON COMMIT DELETE ROWS AS "
            f"SELECT {columns} FROM {self._table} WITH NO DATA"
        )
        self._insert = f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM {self._passing}{self._conflict()}"
        matches = " AND ".join(f"old.{key} {self._equals(key)} new.{key}" for key in self._keys)
        self._delete = f"DELETE FROM {self._table} AS old USING {self._passing} AS new WHERE {matches}"

    def _equals(self, key: str) -> str:
        return "IS NOT DISTINCT FROM" if key in self._nullable else "="

    def _write(self, connection: sa.Connection, rows: list[Row]) -> None:
        if self.shape.mode == "append":
            self._copy(connection, self._table, rows)
            return
        connection.exec_driver_sql(self._make)
        self._copy(connection, self._passing, rows)
        if self.shape.mode == "replace":
            connection.exec_driver_sql(self._delete)
        connection.exec_driver_sql(self._insert)
        connection.exec_driver_sql(f"DELETE FROM {self._passing}")

    def _copy(self, connection: sa.Connection, into: str, rows: list[Row]) -> None:
        statement = f"COPY {into} ({self._columns()}) FROM STDIN"
        # Errors of the raw cursor come as the driver's own; SQLAlchemy's name them for all databases alike.
        cursor: Any = connection.connection.cursor()
        with wrapped(connection), cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


class _Statements(Bulk):
    """One statement over many rows."""

    placeholder: str

    def __init__(self, target: Target, shape: Shape) -> None:
        super().__init__(target, shape)
        self._one = f"({', '.join([self.placeholder] * len(self._names))})"
        self._at_once = max(1, _PARAMETERS // len(self._names))
        matches = " AND ".join(f"{key} {self._equals(key)} {self.placeholder}" for key in self._keys)
        self._delete = f"DELETE FROM {self._table} WHERE {matches}"

    def _write(self, connection: sa.Connection, rows: list[Row]) -> None:
        if self.shape.mode == "replace":
            places = self._key_places
            connection.exec_driver_sql(self._delete, [tuple(row[place] for place in places) for row in rows])
        for start in range(0, len(rows), self._at_once):
            some = rows[start : start + self._at_once]
            values = ", ".join([self._one] * len(some))
            statement = f"INSERT INTO {self._table} ({self._columns()}) VALUES {values}{self._conflict()}"
            connection.exec_driver_sql(statement, tuple(value for row in some for value in row))

    @abstractmethod
    def _equals(self, key: str) -> str: ...


class _Sqlite(_Statements):
    placeholder = "?"

    def _equals(self, key: str) -> str:
        return "IS" if key in self._nullable else "="


class _Mysql(_Statements):
    placeholder = "%s"

    def _equals(self, key: str) -> str:
        return "<=>" if key in self._nullable else "="

    def _conflict(self) -> str:
        if self.shape.mode not in ("upsert", "latest"):
            return ""
        if not self._others:
            return f" ON DUPLICATE KEY UPDATE {self._keys[0]} = {self._keys[0]}"
        # Assignments are carried out from left to right: the column that decides comes last.
        ordered = sorted(self._others, key=lambda name: name == self._newest)
        newer = f"{self._newest} IS NULL OR VALUES({self._newest}) >= {self._newest}"
        changes = (
            f"{name} = IF({newer}, VALUES({name}), {name})" if self._newest else f"{name} = VALUES({name})"
            for name in ordered
        )
        return f" ON DUPLICATE KEY UPDATE {', '.join(changes)}"


_KINDS: Final[dict[str, type[Bulk]]] = {"postgresql": _Postgres, "sqlite": _Sqlite, "mysql": _Mysql}


def bulk_of(target: Target, shape: Shape) -> Bulk:
    """The writer of the database at hand."""
    return _KINDS[target.dialect](target, shape)


def _is_older(value: Any, other: Any) -> bool:
    return value is None or (other is not None and value < other)
