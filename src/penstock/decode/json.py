"""`format: json`: JSON values, bare or behind a JSON-Schema frame. `event_type` is the topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec
import orjson

from penstock.core.errors import DecodeError
from penstock.core.event import Event, RecordLike
from penstock.core.plugin import Decoder, PipelineContext
from penstock.decode.framing import HEADER, MAGIC, first_bytes


class JsonDecoder(Decoder):
    """A frame is told by the value's first byte: no JSON text begins with 0x00. The schema itself is not asked for."""

    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:  # noqa: ARG003 - nothing to configure
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        if not records:
            return []
        kind = type(records[0])
        try:
            # The whole batch in one go: a tombstone, a frame or bad bytes raise, and then each record is looked at by
            # itself.
            return list(map(Event, records, map(_loads, map(kind.value, records)), map(kind.topic, records)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            return [_decode_one(r) for r in records]


# As fast as orjson, which rounds integers beyond 64 bits without a word.
_loads: Callable[[Any], Any] = msgspec.json.Decoder().decode


def _decode_one(record: RecordLike) -> Event | Exception:
    raw = record.value()
    if raw is None:
        return Event(record, None, record.topic())
    body = raw[HEADER:] if raw[:1] == bytes((MAGIC,)) else raw
    try:
        return Event(record, _loads(body), record.topic())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why, at = _explained(body, error)
        where = "" if at is None else f" at byte {len(raw) - len(body) + at}"
        return DecodeError(f"not JSON: {why}{where}; value begins {first_bytes(raw)}")


def _explained(body: bytes, error: Exception) -> tuple[str, int | None]:
    """What is wrong and at which byte; the fast parser does not always say."""
    try:
        body.decode()
        orjson.loads(body)
    except UnicodeDecodeError as wrong:
        return f"not UTF-8, {wrong.reason}", wrong.start
    except orjson.JSONDecodeError as wrong:
        return wrong.msg, len(wrong.doc[: wrong.pos].encode())
    return str(error), None
