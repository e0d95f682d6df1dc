"""Insert-or-update, which SQLAlchemy spells once per database."""

from __future__ import annotations

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
