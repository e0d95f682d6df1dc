"""Reading nested events: fields that must be there, and values as the tables hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.event import json_bytes
from penstock.tables.processor import BadEvent


def record_of(record: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """A nested record; None where it is null or absent."""
    value = record.get(name)
    if value is None or isinstance(value, Mapping):
        return value
    raise BadEvent(f"`{name}` is not a record", received=type(value).__name__)


def required_record(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record_of(record, name)
    if value is None:
        raise BadEvent(f"the event has no `{name}`", received=name)
    return value


def list_of(record: Mapping[str, Any], name: str) -> list[Any] | None:
    """A list; None where it is null or absent."""
    value = record.get(name)
    if value is None or isinstance(value, list):
        return value
    raise BadEvent(f"`{name}` is not a list", received=type(value).__name__)


def records_of(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]] | None:
    """A list of records; None where it is null or absent."""
    values = list_of(record, name)
    for value in values or []:
        if not isinstance(value, Mapping):
            raise BadEvent(f"`{name}` holds something that is not a record", received=type(value).__name__)
    return values


def whole(record: Mapping[str, Any], name: str) -> int | None:
    """A whole number; None where it is null or absent."""
    value = record.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise BadEvent(f"`{name}` is not a whole number", received=type(value).__name__)


def seconds(millis: int | None) -> int | None:
    """Epoch seconds, rounded towards zero as Java divides."""
    return None if millis is None else int(millis / 1000) if millis < 0 else millis // 1000


def json_text(value: Any) -> str | None:
    """A nested value as a column holds it."""
    return None if value is None else json_bytes(value).decode()


def split_last(name: str, mark: str) -> tuple[str, str]:
    """What is before the last `mark`, and what is behind it; nothing and the whole where there is none."""
    before, _, behind = name.rpartition(mark)
    return before, behind
