"""`format: json`: JSON values, bare or behind a JSON-Schema frame. `event_type` is the topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

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
        loads = orjson.loads
        try:
            # The whole batch in one go: a frame, a tombstone or bad bytes raise, and then each record is looked at.
            return [Event(r, loads(r.value()), r.topic()) for r in records]  # type: ignore[arg-type]  # None raises
        except orjson.JSONDecodeError:
            return [_decode_one(r) for r in records]


def _decode_one(record: RecordLike) -> Event | Exception:
    raw = record.value()
    if raw is None:
        return Event(record, None, record.topic())
    body = raw[HEADER:] if raw[:1] == bytes((MAGIC,)) else raw
    try:
        return Event(record, orjson.loads(body), record.topic())
    except orjson.JSONDecodeError as error:
        at = len(raw) - len(body) + len(error.doc[: error.pos].encode())
        return DecodeError(f"not JSON: {error.msg} at byte {at}; value begins {first_bytes(raw)}")
