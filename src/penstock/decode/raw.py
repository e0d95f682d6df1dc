"""`format: raw`: values stay the bytes they are. `event_type` is the topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from penstock.core.event import Event, RecordLike
from penstock.core.plugin import Decoder, PipelineContext


class RawDecoder(Decoder):
    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:  # noqa: ARG003 - nothing to configure
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        return [Event(r, r.value(), r.topic()) for r in records]
