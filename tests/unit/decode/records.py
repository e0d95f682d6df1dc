"""Records for decoder tests."""

from __future__ import annotations

from penstock.core.event import Event, Record


def record(value: bytes | None, offset: int = 0) -> Record:
    return Record("orders", 0, offset, b"key", value)


def values(results: list[Event | Exception]) -> list[object]:
    """Decoded values, with the class of the error in the place of each failed record."""
    return [result.value if isinstance(result, Event) else type(result) for result in results]
