"""Insert-or-update, which SQLAlchemy spells once per database, for one row or for thousands."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from penstock.store.database import Database

Insert = sqlite.Insert | postgresql.Insert


def insert(database: Database, table: sa.Table) -> Insert:
    """An insert of the database at hand, which knows `on_conflict_do_update`."""
    return sqlite.insert(table) if database.is_sqlite else postgresql.insert(table)


def upsert(database: Database, table: sa.Table) -> Insert:
    """Insert a row, or overwrite all columns of the one with the same primary key."""
    statement = insert(database, table)
    keys = list(table.primary_key.columns)
    others = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=keys, set_=others)


def insert_many(database: Database, table: sa.Table, names: Sequence[str]) -> Insert:
    """An insert of the named columns for `execute_many`."""
    if database.is_sqlite:
        return sqlite.insert(table).values({name: sa.bindparam(name) for name in names})
    # All rows are one JSON text: the statement stays short whatever their number. With a placeholder per value, or an
    # array per column, most of the time went into the driver's quoting of them.
    columns = [sa.column(name, _carried(table.c[name].type)) for name in names]
    text = sa.cast(sa.bindparam("rows", type_=sa.Text()), sa.JSON())
    given = sa.func.json_to_recordset(text).table_valued(*columns).render_derived("given", with_types=True)
    return postgresql.insert(table).from_select(
        list(names), sa.select(*(_unpacked(given.c[name], table.c[name].type) for name in names))
    )


def execute_many(
    database: Database, connection: sa.Connection, statement: sa.Insert, rows: Sequence[dict[str, Any]]
) -> sa.CursorResult[Any]:
    """Run a statement made with `insert_many` over the rows, of which there is at least one."""
    if database.is_sqlite:
        return connection.execute(statement, rows)
    columns = statement.table.columns
    prepare = {name: _preparation(columns[name].type, connection.dialect) for name in rows[0]}
    prepared = [{name: prepare[name](value) for name, value in row.items()} for row in rows]
    return connection.execute(statement, {"rows": orjson.dumps(prepared).decode()})


def _carried(kind: Any) -> Any:
    """The type by which a value travels within JSON."""
    return kind if isinstance(kind, (sa.Integer, sa.Float, sa.Boolean)) else sa.Text()


def _unpacked(column: sa.ColumnElement[Any], kind: Any) -> sa.ColumnElement[Any]:
    if isinstance(kind, sa.LargeBinary):
        return sa.func.decode(column, sa.literal_column("'base64'"))
    return sa.cast(column, kind) if isinstance(kind, postgresql.ARRAY) else column


def _preparation(kind: Any, dialect: sa.Dialect) -> Callable[[Any], Any]:
    if isinstance(kind, sa.LargeBinary):
        return lambda raw: None if raw is None else base64.b64encode(raw).decode()
    if isinstance(kind, postgresql.ARRAY):
        return lambda numbers: f"{{{','.join(map(str, numbers))}}}"
    if isinstance(kind, sa.types.TypeDecorator):
        return lambda value: kind.process_bind_param(value, dialect)
    return lambda value: value
