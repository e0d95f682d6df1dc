"""`format: avro`: Confluent's frame, schemas by id, and what happens when one is not there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.spec import KafkaSourceConfig
from penstock.core.errors import DecodeError, Transient
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext
from penstock.decode.avro import AvroDecoder
from penstock.decode.schemas import SchemaPending, parse
from penstock.kafka.registry.client import RegistrySchema, RegistryUnavailable
from tests.support.registry import RegistryServer
from tests.unit.decode.avro_strategies import Pair, pairs
from tests.unit.decode.records import Known, record, values

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "status", "type": "string"}],
}


def decoder_of(url: str, grace: str = "0s") -> AvroDecoder:
    source = {
        "topics": ["orders"],
        "format": "avro",
        "schema_grace": grace,
        "connection": {"schema_registry_url": url, "schema_registry_config": {"max.retries": 0}},
    }
    return AvroDecoder.create(KafkaSourceConfig.model_validate(source), PipelineContext("p"))


@pytest.fixture
def decoder(registry: RegistryServer) -> Iterator[AvroDecoder]:
    made = decoder_of(registry.url)
    yield made
    made.close()


def framed(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    out.write(b"\x00" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_a_batch_of_two_schemas(registry: RegistryServer, decoder: AvroDecoder) -> None:
    order = registry.register("orders-value", json.dumps(ORDER))
    text = registry.register("texts-value", '{"type": "string"}')
    batch = [
        record(framed(order, ORDER, {"id": 1, "status": "paid"})),
        record(framed(text, "string", "hello")),
        record(None),
        record(framed(order, ORDER, {"id": 2, "status": "sent"})),
    ]
    results = decoder.decode(batch)
    assert values(results) == [{"id": 1, "status": "paid"}, "hello", None, {"id": 2, "status": "sent"}]
    assert all(isinstance(result, Event) and result.event_type == "orders" for result in results)


def test_a_schema_is_asked_for_once(registry: RegistryServer, decoder: AvroDecoder) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    raw = framed(number, ORDER, {"id": 1, "status": "paid"})
    for _ in range(3):
        decoder.decode([record(raw), record(raw)])
    assert len(registry.requests) == 1


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "too short"),
        (b"\x00\x00\x01", "too short"),
        (b'{"id": 1}', "byte 0 is 0x7b"),
    ],
)
def test_values_without_a_frame(decoder: AvroDecoder, raw: bytes, said: str) -> None:
    (error,) = decoder.decode([record(raw)])
    assert isinstance(error, DecodeError)
    assert said in error.message


def test_bytes_that_do_not_fit_stay_with_their_record(registry: RegistryServer, decoder: AvroDecoder) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    good = framed(number, ORDER, {"id": 1, "status": "paid"})
    results = decoder.decode(
        [record(good), record(good[:-2]), record(good[:6] + b"\xff\xff\xff\xff\xff"), record(good)]
    )
    assert [type(result) for result in results] == [Event, DecodeError, DecodeError, Event]
    assert f"schema id {number}" in str(results[1])
    assert "at byte" in str(results[1])


def test_references_of_references(registry: RegistryServer, decoder: AvroDecoder) -> None:
    registry.register("order", json.dumps(ORDER))
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "order", "type": "shop.Order"}]}
    registry.register("line", json.dumps(line), references=[{"name": "shop.Order", "subject": "order", "version": 1}])
    needed = [{"name": "shop.Line", "subject": "line", "version": 1}]
    page = {
        "type": "record",
        "name": "Page",
        "fields": [{"name": "lines", "type": {"type": "array", "items": "shop.Line"}}],
    }
    number = registry.register("page", json.dumps(page), references=needed)
    names: dict[str, Any] = {}
    for schema in (ORDER, line):
        fastavro.parse_schema(schema, named_schemas=names)
    value = {"lines": [{"order": {"id": 1, "status": "paid"}}]}
    out = io.BytesIO(b"\x00" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(page, named_schemas=names), value)
    assert values(decoder.decode([record(out.getvalue())])) == [value]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (["null", "shop.Order"], {"id": 1, "status": "paid"}),
        ("shop.Order", {"id": 1, "status": "paid"}),
        ({"type": "array", "items": "shop.Order"}, [{"id": 1, "status": "paid"}]),
        ({"type": "map", "values": ["null", "shop.Order"]}, {"a": {"id": 1, "status": "paid"}, "b": None}),
    ],
)
def test_names_at_the_top_of_a_schema(schema: Any, value: Any) -> None:
    parsed = parse(RegistrySchema(1, "AVRO", json.dumps(schema), (("shop.Order", json.dumps(ORDER)),)))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, value)
    out.seek(0)
    assert fastavro.schemaless_reader(out, parsed, None) == value


def test_an_unknown_id_is_pending_until_the_grace_is_over(registry: RegistryServer) -> None:
    decoder = decoder_of(registry.url, grace="1h")
    (pending,) = decoder.decode([record(b"\x00\x00\x00\x00\x63\x02")])
    assert isinstance(pending, SchemaPending)
    assert isinstance(pending, Transient)
    assert pending.received == 99
    assert 3590 < pending.remaining <= 3600


def test_an_id_that_is_registered_late_decodes(registry: RegistryServer) -> None:
    decoder = decoder_of(registry.url, grace="1h")
    raw = framed(1, ORDER, {"id": 1, "status": "paid"})
    (pending,) = decoder.decode([record(raw)])
    assert isinstance(pending, SchemaPending)
    assert registry.register("orders-value", json.dumps(ORDER)) == 1
    assert values(decoder.decode([record(raw)])) == [{"id": 1, "status": "paid"}]


def test_after_the_grace_the_records_alone_are_bad(registry: RegistryServer, decoder: AvroDecoder) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    good = framed(number, ORDER, {"id": 1, "status": "paid"})
    unknown = b"\x00\x00\x00\x00\x63\x02"
    results = decoder.decode([record(good), record(unknown), record(unknown), record(good)])
    assert [type(result) for result in results] == [Event, DecodeError, DecodeError, Event]
    assert "schema id 99" in str(results[1])
    assert sum("/schemas/ids/99" in request for request in registry.requests) == 1


def test_i06_an_outage_of_the_registry_is_no_failure_of_a_record(
    registry: RegistryServer, decoder: AvroDecoder
) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    raw = framed(number, ORDER, {"id": 1, "status": "paid"})
    for status in (500, 503, 429, 401):
        registry.faults.status = status
        (outage,) = decoder.decode([record(raw)])
        assert isinstance(outage, RegistryUnavailable)
    registry.faults.status = None
    assert values(decoder.decode([record(raw)])) == [{"id": 1, "status": "paid"}]
    registry.faults.status = 500
    assert values(decoder.decode([record(raw)])) == [{"id": 1, "status": "paid"}]


def test_schemas_of_another_kind_are_told(registry: RegistryServer, decoder: AvroDecoder) -> None:
    number = registry.register("j", '{"type": "object"}', "JSON")
    (error,) = decoder.decode([record(b"\x00" + number.to_bytes(4, "big") + b"{}")])
    assert isinstance(error, DecodeError)
    assert "JSON" in error.message
    assert error.hint is not None
    assert "format: json" in error.hint


def test_a_schema_that_cannot_be_parsed_is_told() -> None:
    with pytest.raises(DecodeError, match="schema id 5"):
        parse(RegistrySchema(5, "AVRO", '{"type": "no such type"}', ()))


@pytest.mark.parametrize(
    "empty", ["null", {"type": "fixed", "name": "F", "size": 0}, {"type": "record", "name": "R", "fields": []}]
)
def test_an_array_that_could_keep_a_reader_busy_for_ever_is_refused(empty: Any) -> None:
    schema = {"type": "record", "name": "T", "fields": [{"name": "a", "type": {"type": "array", "items": empty}}]}
    with pytest.raises(DecodeError, match="take no bytes"):
        parse(RegistrySchema(5, "AVRO", json.dumps(schema), ()))


@given(pairs())
def test_any_schema_and_value_come_back(pair: Pair) -> None:
    schema, value = pair
    assert values(AvroDecoder(Known({7: schema})).decode([record(framed(7, schema, value))])) == [value]


@given(pairs(), st.lists(st.binary(max_size=30), max_size=5))
def test_arbitrary_bytes_never_crash_a_batch(pair: Pair, bodies: list[bytes]) -> None:
    schema, value = pair
    records = [record(b"\x00\x00\x00\x00\x07" + body) for body in bodies]
    results = AvroDecoder(Known({7: schema})).decode([*records, record(framed(7, schema, value))])
    assert len(results) == len(records) + 1
    assert values(results)[-1] == value
    assert all(isinstance(result, (Event, DecodeError)) for result in results)
