"""`format: text`: values are UTF-8 text. `event_type` is the topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from penstock.core.errors import DecodeError
from penstock.core.event import Event, RecordLike
from penstock.core.plugin import Decoder, PipelineContext
from penstock.decode.framing import first_bytes


class TextDecoder(Decoder):
    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:  # noqa: ARG003 - nothing to configure
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        return [_decode_one(r) for r in records]


def _decode_one(record: RecordLike) -> Event | Exception:
    raw = record.value()
    try:
        return Event(record, None if raw is None else raw.decode(), record.topic())
    except UnicodeDecodeError as error:
        return DecodeError(f"not UTF-8: {error.reason} at byte {error.start}; value begins {first_bytes(error.object)}")
