"""A SQLite database with all tables of WhereHows, as the tests of processors need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.core.clock import Clock
from penstock.tables import lookup_tables, metadata_tables, staging
from penstock.tables.creation import create_tables
from penstock.tables.processor import ProcessorSettings, Writer
from penstock.tables.target import Target

NOW = 1_700_000_000


class Warehouse:
    """The database, with short ways to fill it and to look at it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        create_tables(target)

    def add(self, table: sa.Table, *rows: dict[str, Any]) -> None:
        with self.target.transaction() as connection:
            for row in rows:
                connection.execute(sa.insert(table).values(row))

    def rows(self, table: sa.Table, *columns: str) -> list[Any]:
        """All rows; of one column its values, of several tuples, of none dicts."""
        with self.target.transaction() as connection:
            found = [dict(row) for row in connection.execute(sa.select(table)).mappings()]
        if not columns:
            return found
        return [row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns) for row in found]

    def counts(self) -> dict[str, int]:
        """Rows of every table that has some."""
        tables = [
            table
            for metadata in (staging.metadata, metadata_tables.metadata, lookup_tables.metadata)
            for table in metadata.sorted_tables
        ]
        return {table.name: len(rows) for table in tables if (rows := self.rows(table))}

    def write(self, writer: Writer, record: dict[str, Any] | None, **settings: Any) -> None:
        """As a chunk does it: one transaction, a savepoint for the event."""
        writer.configure(ProcessorSettings(surroundings=Clock(time=lambda: NOW + 0.5), **settings))
        with self.target.transaction() as connection, connection.begin_nested():
            writer.write(connection, record, "topic")


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    target = Target(f"sqlite:///{tmp_path}/wherehows.db")
    yield Warehouse(target)
    target.close()
