"""Insert-or-update, which SQLAlchemy spells once per database, for one row or for thousands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    # One array per column: the statement stays short whatever the number of rows. With a placeholder per value, half of
    # the time went into the driver's parsing of them.
    arrays = [sa.bindparam(name, type_=postgresql.ARRAY(table.c[name].type)) for name in names]
    rows = sa.func.unnest(*arrays).table_valued(*names).render_derived()
    return postgresql.insert(table).from_select(list(names), sa.select(*rows.c))


def execute_many(
    database: Database, connection: sa.Connection, statement: sa.Insert, rows: Sequence[dict[str, Any]]
) -> sa.CursorResult[Any]:
    """Run a statement made with `insert_many` over the rows, of which there is at least one."""
    if database.is_sqlite:
        return connection.execute(statement, rows)
    return connection.execute(statement, {name: [row[name] for row in rows] for name in rows[0]})
