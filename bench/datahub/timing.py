"""Times Avro readers on records from a file. Run in either environment: it imports what is there."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastavro

HEADER = 5
_REPEATS = 7


def microseconds(read: Callable[[bytes], Any], values: Sequence[bytes]) -> float:
    """Processor time per record, the best of some passes."""
    best = float("inf")
    for _ in range(_REPEATS):
        began = time.process_time()
        for value in values:
            read(value)
        best = min(best, time.process_time() - began)
    return round(best / len(values) * 1e6, 2)


def by_fastavro(schema: str) -> Callable[[bytes], Any]:
    parsed, read = fastavro.parse_schema(json.loads(schema)), fastavro.schemaless_reader
    return lambda value: read(io.BytesIO(value[HEADER:]), parsed, None)


def by_cavro(schema: str) -> Callable[[bytes], Any]:
    import cavro  # noqa: PLC0415 - only in the readers' environment

    decode = cavro.Schema(schema).binary_decode
    return lambda value: decode(value[HEADER:])


def main(schema: Path, values: Path) -> None:
    text = schema.read_text()
    raw = [bytes.fromhex(line) for line in values.read_text().split()]
    found = {"fastavro": microseconds(by_fastavro(text), raw)}
    if find_spec("cavro"):
        found["cavro"] = microseconds(by_cavro(text), raw)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
