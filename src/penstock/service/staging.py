"""The tables of WhereHows: made, merged, described; and what a processor would store of an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from penstock.config.dialects.jdbc import database_address
from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError
from penstock.tables.creation import Creation, create_tables
from penstock.tables.ddl import ddl_of
from penstock.tables.merge import Merge, MergeRun
from penstock.tables.preview import Preview, preview
from penstock.tables.processor import ProcessorSettings, Values
from penstock.tables.registry import resolve_processor
from penstock.tables.target import Target


def _url(address: str) -> str:
    """With the log-in of the environment where the address has none, as WhereHows has it."""
    environ = SYSTEM.environ
    return database_address(address, environ.get("WHZ_DB_USERNAME"), environ.get("WHZ_DB_PASSWORD")).url


@contextmanager
def _opened(address: str) -> Iterator[Target]:
    target = Target(_url(address))
    try:
        yield target
    finally:
        target.close()


def create_staging(address: str, only: Sequence[str]) -> Creation:
    """Make the tables that are missing; `address` is a SQLAlchemy or a JDBC URL."""
    with _opened(address) as target:
        return create_tables(target, only)


def merge_load_status(address: str, tables: Sequence[str], start: int | None, end: int | None) -> MergeRun:
    """Merge what is new, or the events of a range of time."""
    with _opened(address) as target:
        merge = Merge(target, tables)
        return merge.new_rows() if start is None and end is None else merge.events_between(start, end)


def ddl(processor: str, table: str, dialect: str) -> str:
    """The statement that makes the table of a processor's rows."""
    return ddl_of(resolve_processor(processor, str(Path.cwd())), table, dialect)


def read_event(text: str | bytes) -> dict[str, Any] | None:
    """An event as JSON: a record, or null for a tombstone."""
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"the event is not JSON: {error}") from None
    if record is None or isinstance(record, dict):
        return record
    raise ConfigError("the event is not a record", received=type(record).__name__, allowed="a JSON object or null")


def preview_event(
    processor: str, record: dict[str, Any] | None, *, topic: str, table: str | None, address: str | None, values: Values
) -> Preview:
    """What the processor would store of the event."""
    found = resolve_processor(processor, str(Path.cwd()))
    url = None if address is None else _url(address)
    return preview(found(), ProcessorSettings(values=values), record, topic, table=table, url=url)
