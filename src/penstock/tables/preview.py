"""What a processor would store of an event; nothing is kept of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.errors import PenstockError, Transient
from penstock.tables.clusters import Clusters
from penstock.tables.creation import create_tables
from penstock.tables.errors import RowRefused, TargetError, words
from penstock.tables.processor import Processor, ProcessorSettings, Row, Writer
from penstock.tables.target import Target


@dataclass(slots=True)
class Preview:
    """Rows, or the error that the dead letter would carry; neither: there is nothing to store."""

    rows: list[tuple[str, Row]] = field(default_factory=list)
    """Table and row, in the order in which they are written."""
    error: dict[str, object] | None = None

    def as_dict(self) -> dict[str, Any]:
        what = "dead letter" if self.error else "rows" if self.rows else "nothing"
        rows = [{"table": table, "row": row} for table, row in self.rows]
        return {"outcome": what, "rows": rows, "error": self.error}


def preview(
    processor: Processor,
    settings: ProcessorSettings,
    record: dict[str, Any] | None,
    topic: str,
    *,
    table: str | None = None,
    url: str | None = None,
) -> Preview:
    """Process the event as a job would. `url`: its look-ups are those of this database, which stays as it is."""
    done = Preview()
    try:
        with _database(url) as target, _undone(target) as connection:
            clusters = Clusters(values=settings.values)
            clusters.refresh(connection)
            processor.configure(replace(settings, clusters=clusters))
            if isinstance(processor, Writer):
                with _listened(connection, done):
                    processor.write(connection, record, topic)
            else:
                done.rows = _rows(processor, record, topic, table)
                if url is not None and table is not None:
                    _try_rows(connection, table, [row for _, row in done.rows])
    except exc.SQLAlchemyError as error:
        done = Preview(error=RowRefused(words(error)).as_dict())
    except Exception as error:
        if isinstance(error, Transient):
            raise
        done = Preview(error=_described(error))
    return done


def _rows(processor: Processor, record: dict[str, Any] | None, topic: str, table: str | None) -> list[tuple[str, Row]]:
    made = processor.process(record, topic)
    rows = [made] if isinstance(made, Mapping) else list(made or ())
    return [(table or "", dict(row)) for row in rows]


def _try_rows(connection: sa.Connection, name: str, rows: list[Row]) -> None:
    """Let the database say whether it takes them; columns that Penstock adds may be missing."""
    schema, _, bare = name.rpartition(".")
    try:
        table = sa.Table(bare, sa.MetaData(), schema=schema or None, autoload_with=connection)
    except exc.NoSuchTableError:
        raise TargetError(f"there is no table {name}", received=name) from None
    for row in rows:
        unknown = [column for column in row if column not in table.c and not column.startswith("ps_")]
        if unknown:
            raise TargetError(f"table {name} has no column {', '.join(unknown)}", received=unknown)
        connection.execute(sa.insert(table).values({key: value for key, value in row.items() if key in table.c}))


def _described(error: Exception) -> dict[str, object]:
    if isinstance(error, PenstockError):
        return error.as_dict()
    return {"code": type(error).__name__, "message": str(error)}


@contextmanager
def _database(url: str | None) -> Iterator[Target]:
    """The given database; without one, an empty one that lasts as long as the preview."""
    if url is not None:
        target = Target(url)
        try:
            yield target
        finally:
            target.close()
        return
    with tempfile.TemporaryDirectory(prefix="penstock-preview-") as folder:
        target = Target(f"sqlite:///{folder}/preview.db")
        try:
            create_tables(target)
            yield target
        finally:
            target.close()


class _Undo(Exception):
    """Ends a transaction that is to leave nothing behind."""


@contextmanager
def _undone(target: Target) -> Iterator[sa.Connection]:
    try:
        with target.transaction() as connection:
            yield connection
            raise _Undo
    except _Undo:
        return


@contextmanager
def _listened(connection: sa.Connection, done: Preview) -> Iterator[None]:
    """Note every row that is written."""

    def heard(_connection: Any, statement: Any, many: Any, one: Any, _options: Any) -> None:
        if isinstance(statement, (sa.Insert, sa.Update)) and isinstance(statement.table, sa.Table):
            table = statement.table
            found = many or [one or statement.compile().params]
            done.rows += [(table.name, {name: row[name] for name in row if name in table.c}) for row in found]

    sa.event.listen(connection, "before_execute", heard)
    try:
        yield
    finally:
        sa.event.remove(connection, "before_execute", heard)
