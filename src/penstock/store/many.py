"""Inserts of thousands of rows: SQLAlchemy's own way to bind them takes several times as long as the database takes to
store them, so each database gets them in the form it takes best."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from penstock.store.database import Database
from penstock.store.tables import CleanText, clean
from penstock.store.upsert import Insert

Finish = Callable[[Insert], sa.sql.dml.Insert]
"""Says what happens where a row is there already, and what the statement returns."""

Preparation = Callable[[list[Any]], list[Any]]
"""Makes a column's values fit for the database."""

_PARAMETERS: Final = 4_000
"""In one statement: SQLite takes eight times as many, no faster, and an error would show them all."""


class InsertMany(ABC):
    """One insert of the named columns of a table, made once and run often."""

    def __init__(self, database: Database, table: sa.Table, names: Sequence[str], finish: Finish) -> None:
        self._statement = finish(self._begun(table, names))
        self._dialect = database.engine.dialect
        self._prepare = {str(name): self._preparation(table.c[name].type) for name in self._ordered(names)}

    def run(self, connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> list[Any]:
        """Insert the rows; what the statement returns of them."""
        if not rows:
            return []
        columns = [prepare([row[name] for row in rows]) for name, prepare in self._prepare.items()]
        return self._run(connection, list(zip(*columns, strict=True)))

    @abstractmethod
    def _begun(self, table: sa.Table, names: Sequence[str]) -> Insert:
        """The statement up to its values."""

    def _ordered(self, names: Sequence[str]) -> Sequence[str]:
        """The names in the order in which the statement wants their values."""
        return names

    @abstractmethod
    def _run(self, connection: sa.Connection, rows: list[tuple[Any, ...]]) -> list[Any]: ...

    def _preparation(self, kind: Any) -> Preparation:
        if isinstance(kind, CleanText):
            return _cleaned
        if isinstance(kind, sa.types.TypeDecorator):
            dialect = self._dialect
            return lambda values: [kind.process_bind_param(value, dialect) for value in values]
        return lambda values: values


class _Sqlite(InsertMany):
    """With a placeholder per value: all rows in one statement where it returns something, else row after row."""

    def __init__(self, database: Database, table: sa.Table, names: Sequence[str], finish: Finish) -> None:
        super().__init__(database, table, names, finish)
        self._one = f"({', '.join('?' * len(names))})"
        self._before, self._after = str(self._statement.compile(dialect=self._dialect)).split(self._one)
        self._returns = "RETURNING" in self._after
        self._at_once = _PARAMETERS // len(names)

    def _begun(self, table: sa.Table, names: Sequence[str]) -> Insert:
        return sqlite.insert(table).values({name: sa.bindparam(name) for name in names})

    def _ordered(self, names: Sequence[str]) -> Sequence[str]:
        return self._statement.compile(dialect=self._dialect).positiontup or names

    def _run(self, connection: sa.Connection, rows: list[tuple[Any, ...]]) -> list[Any]:
        if not self._returns:
            connection.exec_driver_sql(f"{self._before}{self._one}{self._after}", rows)
            return []
        returned: list[Any] = []
        for start in range(0, len(rows), self._at_once):
            some = rows[start : start + self._at_once]
            text = f"{self._before}{', '.join([self._one] * len(some))}{self._after}"
            returned += connection.exec_driver_sql(text, tuple(value for row in some for value in row))
        return returned


class _Postgres(InsertMany):
    """All rows as one JSON text: the statement stays short whatever their number. With a placeholder per value, or an
    array per column, most of the time went into the driver's quoting of them."""

    def _begun(self, table: sa.Table, names: Sequence[str]) -> Insert:
        columns = [sa.column(name, _carried(table.c[name].type)) for name in names]
        text = sa.cast(sa.bindparam("rows", type_=sa.Text()), sa.JSON())
        given = sa.func.json_to_recordset(text).table_valued(*columns).render_derived("given", with_types=True)
        return postgresql.insert(table).from_select(
            list(names), sa.select(*(_unpacked(given.c[name], table.c[name].type) for name in names))
        )

    def _run(self, connection: sa.Connection, rows: list[tuple[Any, ...]]) -> list[Any]:
        named = [dict(zip(self._prepare, row, strict=True)) for row in rows]
        result = connection.execute(self._statement, {"rows": orjson.dumps(named).decode()})
        return list(result) if result.returns_rows else []

    def _preparation(self, kind: Any) -> Preparation:
        if isinstance(kind, sa.LargeBinary):
            return lambda values: [None if raw is None else base64.b64encode(raw).decode() for raw in values]
        if isinstance(kind, postgresql.ARRAY):
            return lambda values: [f"{{{','.join(map(str, numbers))}}}" for numbers in values]
        return super()._preparation(kind)


def insert_many(database: Database, table: sa.Table, names: Sequence[str], finish: Finish) -> InsertMany:
    """The insert of the database at hand."""
    kind = _Sqlite if database.is_sqlite else _Postgres
    return kind(database, table, names, finish)


def _cleaned(texts: list[Any]) -> list[Any]:
    """A look at all of them together is enough for most."""
    together = "".join(filter(None, texts))
    if together.isascii() and "\0" not in together:
        return texts
    return [None if text is None else clean(text) for text in texts]


def _carried(kind: Any) -> Any:
    """The type by which a value travels within JSON."""
    return kind if isinstance(kind, (sa.Integer, sa.Float, sa.Boolean)) else sa.Text()


def _unpacked(column: sa.ColumnElement[Any], kind: Any) -> sa.ColumnElement[Any]:
    if isinstance(kind, sa.LargeBinary):
        return sa.func.decode(column, sa.literal_column("'base64'"))
    # Texts of a given length are ids, which PostgreSQL has a type for.
    is_id = isinstance(kind, sa.String) and kind.length is not None
    return sa.cast(column, kind) if is_id or isinstance(kind, postgresql.ARRAY) else column
