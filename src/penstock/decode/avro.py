"""`format: avro`: Avro values in Confluent's frame, read with the schema of their id. `event_type` is the topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from penstock.config.spec import KafkaSourceConfig
from penstock.core.errors import DecodeError
from penstock.core.event import Event, RecordLike
from penstock.core.plugin import Decoder, PipelineContext
from penstock.decode.framing import require_frame
from penstock.decode.schemas import Schemas, Unusable, read_value


class AvroDecoder(Decoder):
    """An id that cannot be used is an error of its records alone."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    @classmethod
    def create(cls, source: KafkaSourceConfig, ctx: PipelineContext) -> Self:
        return cls(Schemas.of(source, ctx))

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        unusable: Unusable = {}
        return [self._decode_one(record, unusable) for record in records]

    def close(self) -> None:
        self._schemas.close()

    def _decode_one(self, record: RecordLike, unusable: Unusable) -> Event | Exception:
        raw = record.value()
        if raw is None:
            return Event(record, None, record.topic())
        try:
            schema_id = require_frame(raw)
        except DecodeError as error:
            return error
        schema = self._schemas.find(schema_id, unusable)
        if isinstance(schema, Exception):
            return schema
        value = read_value(raw, schema, schema_id)
        return value if isinstance(value, DecodeError) else Event(record, value, record.topic())
