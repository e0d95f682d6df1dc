"""Records for decoder tests."""

from __future__ import annotations

import json
from typing import Any

from penstock.core.event import Event, Record
from penstock.decode.schemas import Schemas, parse
from penstock.kafka.registry.client import RegistrySchema


def record(value: bytes | None, offset: int = 0) -> Record:
    return Record("orders", 0, offset, b"key", value)


def values(results: list[Event | Exception]) -> list[object]:
    """Decoded values, with the class of the error in the place of each failed record."""
    return [result.value if isinstance(result, Event) else type(result) for result in results]


class Known(Schemas):
    """Finds these schemas without asking anybody."""

    def __init__(self, schemas: dict[Any, Any]) -> None:
        self._parsed = {
            number: parse(RegistrySchema(number, "AVRO", json.dumps(schema), ())) for number, schema in schemas.items()
        }
