"""Events made by hand, for tests of single steps."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.core.event import Event, Headers, Record


def make_event(
    value: Any = None,
    *,
    event_type: str = "JsonEvent",
    key: bytes | None = b"key-1",
    headers: Headers | None = None,
    offset: int = 41,
) -> Event:
    """An event as a JSON decoder would make it, at partition 3 of the topic `orders`."""
    raw = value if isinstance(value, bytes) else orjson.dumps(value)
    return Event(Record("orders", 3, offset, key, raw, headers, 1_755_000_000_000, 1), value, event_type)
