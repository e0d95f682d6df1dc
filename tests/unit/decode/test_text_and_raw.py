"""`format: text` and `format: raw`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import DecodeError
from penstock.core.event import Event
from penstock.decode.raw import RawDecoder
from penstock.decode.text import TextDecoder
from tests.unit.decode.records import record, values


def test_text() -> None:
    results = TextDecoder().decode([record("grüße".encode()), record(b""), record(None), record(b"ok\xff")])
    assert values(results) == ["grüße", "", None, DecodeError]
    assert "at byte 2" in str(results[3])
    assert isinstance(results[0], Event)
    assert results[0].event_type == "orders"


@given(st.lists(st.binary() | st.none()))
def test_raw_values_stay_what_they_are(raws: list[bytes | None]) -> None:
    assert values(RawDecoder().decode([record(raw) for raw in raws])) == raws


@given(st.lists(st.binary()))
def test_text_never_crashes_a_batch(raws: list[bytes]) -> None:
    for raw, result in zip(raws, TextDecoder().decode([record(raw) for raw in raws]), strict=True):
        if isinstance(result, Event):
            assert result.value.encode() == raw
        else:
            assert isinstance(result, DecodeError)
