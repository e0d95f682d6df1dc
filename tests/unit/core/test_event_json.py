"""The envelope and its text form."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import Event, Record

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _event(value: Any, event_type: str = "T") -> Event:
    return Event(Record("orders", 3, 41, b"k", b"raw", [("h", b"1"), ("h", None)], 5, 1), value, event_type)


@given(JSON, st.text())
def test_the_text_parses_to_the_three_keys_in_order(value: Any, event_type: str) -> None:
    text = _event(value, event_type).as_json()
    parsed = json.loads(text)
    assert list(parsed) == ["event_type", "event", "meta"]
    assert parsed == {
        "event_type": event_type,
        "event": value,
        "meta": {"kafka": {"topic": "orders", "offset": 41, "partition": 3}},
    }
    assert text.startswith("{ ")
    assert text.endswith(" }")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"plain", '"plain"'),
        (b"\xff\xfe", '"//4="'),
        ({1: "a"}, '{"1":"a"}'),
        ({"s": {1}}, '{"s":[1]}'),
        (None, "null"),
    ],
)
def test_what_json_has_no_form_for(value: Any, text: str) -> None:
    assert _event(value).event.as_json() == text


def test_a_meta_that_cannot_be_written_becomes_null() -> None:
    event = _event({"a": 1})
    event.meta = {"x": {("a", "b"): "keys must be texts"}}
    assert json.loads(event.as_json())["meta"] is None


def test_the_body_is_a_mapping_with_the_record_beside_it() -> None:
    body = _event({"a": 1, "b": 2}).event
    assert (body["a"], body.get("zz"), list(body), len(body)) == (1, None, ["a", "b"], 2)
    assert (body.key, body.headers, body.timestamp) == (b"k", [("h", b"1"), ("h", None)], 5)
    assert list(_event([1, 2]).event) == []
    assert _event(None).event  # a tombstone is an event too
    with pytest.raises(KeyError):
        body["zz"]


def test_i03_a_record_keeps_bytes_and_repeated_headers() -> None:
    record = Record("t", 0, 1, b"\x00\xff", b"", [("h", b"1"), ("h", b"2"), ("a", None)], 9, 2)
    again = pickle.loads(pickle.dumps(Record.of(record)))  # noqa: S301 - our own bytes
    assert again == record
    assert again.headers() == [("h", b"1"), ("h", b"2"), ("a", None)]
    assert again.timestamp() == (2, 9)
