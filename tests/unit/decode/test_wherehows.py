"""`format: wherehows`: schema ids of four kinds, by topic; anything but a record is a decode failure."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.spec import KafkaSourceConfig
from penstock.config.wire import WireSpec
from penstock.core.errors import DecodeError
from penstock.core.event import Event, Record
from penstock.core.plugin import PipelineContext
from penstock.decode.schemas import SchemaPending
from penstock.decode.wherehows import WhereHowsDecoder
from penstock.kafka.registry.client import RegistryUnavailable
from tests.support.dialect_registry import DialectServer
from tests.unit.decode.records import Known

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
UUID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
SHA1 = "00112233445566778899aabbccddeeff01234567"
SIZES = {"INT": 4, "LONG": 8, "UUID": 16, "SHA1": 20}


def decoder_of(url: str, grace: str = "0s", **wire: Any) -> WhereHowsDecoder:
    source = {
        "topics": ["orders"],
        "format": "wherehows",
        "schema_grace": grace,
        "wherehows": wire,
        "connection": {"schema_registry_url": url},
    }
    return WhereHowsDecoder.create(KafkaSourceConfig.model_validate(source), PipelineContext("p"))


@pytest.fixture
def server() -> Iterator[DialectServer]:
    with DialectServer("linkedin", {UUID: ORDER}) as running:
        yield running


def id_bytes(kind: str, text: str) -> bytes:
    return int(text).to_bytes(SIZES[kind], "big", signed=True) if kind in ("INT", "LONG") else bytes.fromhex(text)


def framed(kind: str, text: str, schema: Any = ORDER, value: Any = None) -> bytes:
    out = io.BytesIO()
    out.write(b"\x00" + id_bytes(kind, text))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": 1} if value is None else value)
    return out.getvalue()


def one(decoder: WhereHowsDecoder, raw: bytes | None, topic: str = "orders") -> Event | Exception:
    [result] = decoder.decode([Record(topic, 0, 0, None, raw)])
    return result


def refused(decoder: WhereHowsDecoder, raw: bytes) -> str:
    result = one(decoder, raw)
    assert isinstance(result, DecodeError)
    return result.message


@pytest.mark.parametrize(
    ("kind", "text"), [("INT", "70000"), ("INT", "-1"), ("LONG", str(-(2**62))), ("UUID", UUID), ("SHA1", SHA1)]
)
def test_ids_of_every_kind(server: DialectServer, kind: str, text: str) -> None:
    server.schemas[text] = ORDER
    result = one(decoder_of(server.url, id_type=kind), framed(kind, text))
    assert isinstance(result, Event)
    assert (result.value, result.event_type) == ({"id": 1}, "orders")
    assert server.requests == [f"/schemaRegistry/schemas/id={text}"]


def test_the_bytes_of_the_specification() -> None:
    assert framed("INT", "70000")[:5].hex(" ") == "00 00 01 11 70"
    assert framed("UUID", UUID)[:17] == b"\x00" + bytes.fromhex(UUID)


def test_id_type_and_dialect_by_topic(server: DialectServer) -> None:
    with DialectServer("confluent", {"7": ORDER}) as confluent:
        by_topic = {"modern": {"id_type": "INT", "dialect": "confluent"}}
        decoder = decoder_of(f"{server.url},{confluent.url}", by_topic=by_topic)
        # The one that does not know a path says that it has no such schema: each topic has a server of its own here.
        server.schemas.clear()
        server.faults.status = 503
        assert isinstance(one(decoder, framed("INT", "7"), "modern"), Event)
        server.faults.status, confluent.faults.status = None, 503
        server.schemas[UUID] = ORDER
        assert isinstance(one(decoder, framed("UUID", UUID)), Event)
    decoder.close()


def test_a_null_value_is_handed_on(server: DialectServer) -> None:
    result = one(decoder_of(server.url), None)
    assert isinstance(result, Event)
    assert result.value is None
    assert server.requests == []


@pytest.mark.parametrize("kind", SIZES)
def test_values_shorter_than_their_header(server: DialectServer, kind: str) -> None:
    decoder = decoder_of(server.url, id_type=kind)
    for length in (0, 1, 3, SIZES[kind]):
        message = refused(decoder, b"\x00" * length)
        assert message.startswith(f"too short for the byte 0x00 and an id of type {kind}, {SIZES[kind] + 1} bytes")
    assert server.requests == []


def test_a_wrong_first_byte(server: DialectServer) -> None:
    decoder = decoder_of(server.url)
    for raw in (b"{}", b"\x01" + bytes(30)):
        assert f"byte 0 is 0x{raw[0]:02x}, not the 0x00" in refused(decoder, raw)


def test_an_unknown_id_is_waited_for_and_then_refused(server: DialectServer) -> None:
    pending = one(decoder_of(server.url, "1h"), framed("UUID", "ab" * 16))
    assert isinstance(pending, SchemaPending)
    assert "asked again" in pending.message
    decoder = decoder_of(server.url)
    assert f"schema id {'ab' * 16} is unknown" in refused(decoder, framed("UUID", "ab" * 16))


def test_an_id_that_is_of_no_use_is_not_asked_for_again_at_once(server: DialectServer) -> None:
    decoder = decoder_of(server.url)
    for _ in range(3):
        refused(decoder, framed("UUID", "ab" * 16))
    assert len(server.requests) == 1


def test_a_schema_is_asked_for_once_and_the_oldest_goes_first(server: DialectServer) -> None:
    ids = [f"{number:032x}" for number in range(3)]
    server.schemas = dict.fromkeys(ids, ORDER)
    decoder = decoder_of(server.url, max_schemas=2)
    for text in (*ids, ids[2], ids[1], ids[0]):
        assert isinstance(one(decoder, framed("UUID", text)), Event)
    asked = [path.rpartition("=")[2] for path in server.requests]
    assert asked == [*ids, ids[0]]


def test_an_outage_is_no_failure_of_a_record(server: DialectServer) -> None:
    server.faults.status = 500
    assert isinstance(one(decoder_of(server.url), framed("UUID", UUID)), RegistryUnavailable)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ("string", "hello", "of type string"),
        ("bytes", b"hello", "6 bytes as they are"),
        ({"type": "map", "values": "long"}, {"id": 1}, "of type map"),
        ({"type": "array", "items": "long"}, [1], "of type array"),
        (["null", "string"], "hello", "of type string"),
        ("long", 3, "of type long"),
    ],
)
def test_a_value_that_is_no_record(server: DialectServer, schema: Any, value: Any, said: str) -> None:
    server.schemas[UUID] = schema
    message = refused(decoder_of(server.url), framed("UUID", UUID, schema, value))
    assert message.startswith(f"a record is wanted; the value of schema id {UUID} is {said}")


def test_a_record_in_a_union(server: DialectServer) -> None:
    union = ["null", {"type": "map", "values": "long"}, ORDER]
    server.schemas[UUID] = union
    decoder = decoder_of(server.url)
    header = b"\x00" + bytes.fromhex(UUID)
    result = one(decoder, header + b"\x04\x02")
    assert isinstance(result, Event)
    assert result.value == {"id": 1}
    assert "of type null" in refused(decoder, header + b"\x00")
    assert "of type map" in refused(decoder, header + b"\x02\x00")
    assert "no member 3" in refused(decoder, header + b"\x06")
    assert "no member" in refused(decoder, header)


def test_bytes_that_do_not_fit_the_schema(server: DialectServer) -> None:
    assert f"not Avro of schema id {UUID}" in refused(decoder_of(server.url), b"\x00" + bytes.fromhex(UUID) + b"\xff")


def test_a_schema_that_is_none(server: DialectServer) -> None:
    server.schemas[UUID] = {"type": "nonsense"}
    assert f"schema id {UUID} is not a usable Avro schema" in refused(decoder_of(server.url), framed("UUID", UUID))


KNOWN = WhereHowsDecoder(WireSpec(), lambda _: Known({UUID: ORDER}))


@given(body=st.binary(max_size=40))
def test_arbitrary_bytes_are_a_record_or_an_error(body: bytes) -> None:
    result = one(KNOWN, b"\x00" + bytes.fromhex(UUID) + body)
    assert isinstance(result, DecodeError) or (isinstance(result, Event) and isinstance(result.value["id"], int))


@given(raw=st.binary(max_size=16) | st.binary(max_size=40).filter(lambda raw: raw[:1] != b"\x00"))
def test_values_without_a_frame_are_errors(raw: bytes) -> None:
    assert refused(KNOWN, raw)
