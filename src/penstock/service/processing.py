"""What processors make of events, and the tables they need; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from penstock.core.errors import ConfigError
from penstock.service.staging import database_url
from penstock.tables.ddl import ddl_of
from penstock.tables.preview import Preview, preview
from penstock.tables.processor import ProcessorSettings, Values
from penstock.tables.registry import resolve_processor


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
    url = None if address is None else database_url(address)
    return preview(found(), ProcessorSettings(values=values), record, topic, table=table, url=url)
