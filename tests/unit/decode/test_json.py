"""`format: json`."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import DecodeError, Terminal
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext
from penstock.decode.json import JsonDecoder
from tests.unit.decode.records import record, values


@pytest.fixture(scope="module")
def decoder() -> JsonDecoder:
    return JsonDecoder.create(None, PipelineContext("p"))


DECODER = JsonDecoder()
TEXT = st.text(st.characters(codec="utf-8"))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def test_a_batch_keeps_its_order(decoder: JsonDecoder) -> None:
    results = decoder.decode([record(b'{"n": %d}' % n, n) for n in range(5)])
    assert values(results) == [{"n": n} for n in range(5)]
    assert [r.record.offset() for r in results if isinstance(r, Event)] == list(range(5))


def test_the_event_type_is_the_topic(decoder: JsonDecoder) -> None:
    (event,) = decoder.decode([record(b"1")])
    assert isinstance(event, Event)
    assert event.event_type == "orders"


def test_a_tombstone_is_a_value_of_its_own(decoder: JsonDecoder) -> None:
    first, tombstone, last = decoder.decode([record(b"1"), record(None), record(b"null")])
    assert isinstance(tombstone, Event)
    assert (tombstone.value, tombstone.event_type) == (None, "orders")
    assert values([first, last]) == [1, None]


def test_a_schema_frame_is_taken_off(decoder: JsonDecoder) -> None:
    framed = b'\x00\x00\x00\x00\x07{"a": 1}'
    assert values(decoder.decode([record(framed), record(b'{"a": 2}')])) == [{"a": 1}, {"a": 2}]


def test_an_error_stays_with_its_record_and_says_where(decoder: JsonDecoder) -> None:
    good, bad, also_good = decoder.decode([record(b"1"), record(b'{"name": "x", oops}'), record(b"2")])
    assert values([good, also_good]) == [1, 2]
    assert isinstance(bad, DecodeError)
    assert isinstance(bad, Terminal)
    assert "at byte 14" in bad.message
    assert "7b 22 6e" in bad.message


def test_bytes_are_counted_in_bytes_and_with_the_frame(decoder: JsonDecoder) -> None:
    text = '{"ü": x}'.encode()
    (bare,), (framed,) = decoder.decode([record(text)]), decoder.decode([record(b"\x00\x00\x00\x00\x01" + text)])
    assert "at byte 7;" in str(bare)
    assert "at byte 12;" in str(framed)


@pytest.mark.parametrize(
    "bad", [b"", b" ", b"{", b"\xff\xfe", b"NaN", b"\x00", b"\x00\x00\x00\x00\x01", b"'a'", b"1 2"]
)
def test_what_is_not_json_is_an_error(decoder: JsonDecoder, bad: bytes) -> None:
    assert values(decoder.decode([record(bad), record(b"1")])) == [DecodeError, 1]


def test_the_payload_does_not_travel_in_the_error(decoder: JsonDecoder) -> None:
    (error,) = decoder.decode([record(b'{"password": "' + b"hush" * 500_000)])
    assert isinstance(error, DecodeError)
    assert len(error.message) < 300
    assert "hush" not in error.message
    assert "2000014 bytes" in error.message


def test_a_record_of_ten_megabytes(decoder: JsonDecoder) -> None:
    text = "x" * 10_000_000
    (event,) = decoder.decode([record(orjson.dumps({"text": text}))])
    assert isinstance(event, Event)
    assert event.value["text"] == text


def test_deep_nesting_is_an_error_not_a_crash(decoder: JsonDecoder) -> None:
    assert values(decoder.decode([record(b"[" * 200_000), record(b"1")])) == [DecodeError, 1]


def test_integers_keep_all_their_digits(decoder: JsonDecoder) -> None:
    (event,) = decoder.decode([record(b'{"wei": 123456789012345678901234567890, "at": -9223372036854775809}')])
    assert isinstance(event, Event)
    assert event.value == {"wei": 123456789012345678901234567890, "at": -9223372036854775809}
    assert json.loads(event.event.as_json()) == event.value


@given(st.lists(JSON, max_size=8))
def test_any_json_comes_back(given_values: list[object]) -> None:
    raws = [json.dumps(value, ensure_ascii=False).encode() for value in given_values]
    assert values(DECODER.decode([record(raw) for raw in raws])) == given_values


@given(st.lists(st.binary(max_size=40) | st.none(), max_size=10), st.integers(0, 10))
def test_arbitrary_bytes_never_crash_a_batch(raws: list[bytes | None], place: int) -> None:
    place = min(place, len(raws))
    records = [record(raw, i) for i, raw in enumerate([*raws[:place], b'{"good": 1}', *raws[place:]])]
    results = DECODER.decode(records)
    assert len(results) == len(records)
    assert values(results)[place] == {"good": 1}
    for given_record, result in zip(records, results, strict=True):
        if isinstance(result, Event):
            assert result.record is given_record
        else:
            assert isinstance(result, DecodeError)
