"""`format: wherehows`: Avro records behind schema ids of several kinds, by topic. `event_type` is the topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

import fastavro

from penstock.config.spec import KafkaSourceConfig
from penstock.config.wire import IdType, RegistryDialect, WireSpec
from penstock.core.errors import DecodeError
from penstock.core.event import Event, RecordLike
from penstock.core.net.guard import guard_of
from penstock.core.plugin import Decoder, PipelineContext
from penstock.decode.framing import MAGIC, first_bytes
from penstock.decode.schemas import Schemas, Unusable, read_value, registry_url
from penstock.kafka.registry.dialects import DialectRegistry

_NEGATIVE = 5.0
"""Seconds for which the registry is not asked again for an id that it does not know."""


def _signed(raw: bytes) -> str:
    return str(int.from_bytes(raw, "big", signed=True))


_ID_TEXTS: dict[IdType, tuple[int, Callable[[bytes], str]]] = {
    "INT": (4, _signed),
    "LONG": (8, _signed),
    "UUID": (16, bytes.hex),
    "SHA1": (20, bytes.hex),
}
"""Bytes of an id, and how its text is made of them."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """How values of one topic begin."""

    id_type: IdType
    dialect: RegistryDialect
    header: int
    id_text: Callable[[bytes], str]

    def schema_id(self, raw: bytes) -> str:
        if not raw or (raw[0] == MAGIC and len(raw) < self.header):
            raise DecodeError(
                f"too short for the byte 0x00 and an id of type {self.id_type}, {self.header} bytes: {first_bytes(raw)}"
            )
        if raw[0] != MAGIC:
            raise DecodeError(f"byte 0 is 0x{raw[0]:02x}, not the 0x00 of a schema frame: {first_bytes(raw)}")
        return self.id_text(raw[1 : self.header])


class WhereHowsDecoder(Decoder):
    """Values that are no records end as dead letters, as those do that cannot be read."""

    def __init__(self, wire: WireSpec, schemas: Callable[[RegistryDialect], Schemas]) -> None:
        self._wire = wire
        self._make_schemas = schemas
        self._schemas: dict[RegistryDialect, Schemas] = {}
        self._frames: dict[str, _Frame] = {}

    @classmethod
    def create(cls, source: KafkaSourceConfig, ctx: PipelineContext) -> Self:
        wire = source.wherehows or WireSpec()
        urls = registry_url(source, ctx)

        def schemas(dialect: RegistryDialect) -> Schemas:
            guard = guard_of(source.connection.allow_private)
            registry = DialectRegistry(urls, dialect, source.connection.schema_registry_config, guard=guard)
            return Schemas(registry, source.schema_grace, most=wire.max_schemas, negative=_NEGATIVE)

        return cls(wire, schemas)

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        unusable: dict[RegistryDialect, Unusable] = {}
        return [self._decode_one(record, unusable) for record in records]

    def close(self) -> None:
        for schemas in self._schemas.values():
            schemas.close()

    def _decode_one(self, record: RecordLike, unusable: dict[RegistryDialect, Unusable]) -> Event | Exception:
        raw, topic = record.value(), record.topic()
        if raw is None:
            return Event(record, None, topic)
        frame = self._frames.get(topic) or self._frame(topic)
        try:
            schema_id = frame.schema_id(raw)
        except DecodeError as error:
            return error
        schema = self._schemas[frame.dialect].find(schema_id, unusable.setdefault(frame.dialect, {}))
        if isinstance(schema, Exception):
            return schema
        value = _read_record(raw, schema, schema_id, frame.header)
        return value if isinstance(value, DecodeError) else Event(record, value, topic)

    def _frame(self, topic: str) -> _Frame:
        id_type, dialect = self._wire.of(topic)
        if dialect not in self._schemas:
            self._schemas[dialect] = self._make_schemas(dialect)
        size, id_text = _ID_TEXTS[id_type]
        return self._frames.setdefault(topic, _Frame(id_type, dialect, 1 + size, id_text))


def _read_record(raw: bytes, schema: Any, schema_id: str, start: int) -> Any:
    """The record behind the frame, or why there is none."""
    if isinstance(schema, list):
        chosen = _branch(raw, schema, schema_id, start)
        if isinstance(chosen, DecodeError):
            return chosen
        schema, start = chosen
    kind = schema.get("type") if isinstance(schema, dict) else schema
    if kind in ("record", "error"):
        return read_value(raw, schema, schema_id, start)
    size = f"{len(raw) - start} bytes as they are" if kind == "bytes" else f"of type {kind}"
    return DecodeError(
        f"a record is wanted; the value of schema id {schema_id} is {size}: {first_bytes(raw)}", received=schema_id
    )


def _branch(raw: bytes, union: list[Any], schema_id: str, start: int) -> tuple[Any, int] | DecodeError:
    """The member of a union that a value is of, and where it begins."""
    body = BytesIO(raw)
    body.seek(start)
    try:
        number: Any = fastavro.schemaless_reader(body, "long", None)
    except Exception:  # noqa: BLE001 - as in `read_value`: bad bytes make the reader raise nearly anything
        number = -1
    if not 0 <= number < len(union):
        return DecodeError(
            f"not Avro of schema id {schema_id}: no member {number} of its union; value begins {first_bytes(raw)}"
        )
    return union[number], body.tell()
