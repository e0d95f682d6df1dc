"""A message as a dataclip: the body and the six keys, whatever bytes come."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import Record
from penstock.workflows.message import DataclipTooLarge, InvalidData, MessageReader


def record(value: bytes | None, **more: object) -> Record:
    given_ = {"key_": b"p-88", "headers_": [("src", b"hl7")], "timestamp_": 1755000000123} | more
    return Record("lab-results", 4, 1207, value_=value, **given_)  # type: ignore[arg-type]  # by name


def test_the_example_of_the_specification() -> None:
    value = b'{"patient":"p-88","configuration":{"x":1}}'
    message = MessageReader().read(record(value))
    assert message.body == '{"patient":"p-88"}'
    assert message.raw == value
    assert message.request == (
        '{"topic":"lab-results","partition":4,"offset":1207,"key":"p-88","ts":1755000000123,"headers":[["src","hl7"]]}'
    )


def test_a_body_is_kept_as_it_was_written_long_numbers_and_nul_included() -> None:
    value = b'{ "n": 123456789012345678901234567890,\n "z": 1.10, "nul": "a\\u0000b" }'
    message = MessageReader().read(record(value))
    assert (message.body.encode(), message.raw) == (value, None)
    with_configuration = MessageReader().read(record(value.replace(b"{", b'{"configuration": [1], ', 1)))
    assert json.loads(with_configuration.body) == json.loads(value)
    assert "123456789012345678901234567890" in with_configuration.body


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "tombstone"),
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"NaN", "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": "\\ud800"}', "not JSON"),
        (b'{"a": "\x00"}', "not JSON"),
        (b"[1]", "an array"),
        (b'"x"', "a text"),
        (b"1", "a number"),
        (b"null", "null"),
        (b"true", "true or false"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_object_is_invalid_and_any_wraps_it(value: bytes | None, said: str) -> None:
    with pytest.raises(InvalidData, match=said) as caught:
        MessageReader().read(record(value))
    assert caught.value.code == "invalid_data"
    body = json.loads(MessageReader("any").read(record(value)).body)
    if body.get("encoding") == "base64":
        assert base64.b64decode(body["value"]) == value
    elif body.get("encoding") == "utf-8":
        assert body["value"].encode() == value
    else:
        assert body["value"] == (None if value is None else json.loads(value))
        assert body.get("tombstone", False) is (value is None)


def test_a_value_above_the_limit_is_too_large() -> None:
    reader = MessageReader(max_bytes=20)
    assert reader.read(record(b'{"a": "0123456789"}')).body
    with pytest.raises(DataclipTooLarge, match="21 bytes; a dataclip takes 20"):
        reader.read(record(b'{"a": "012345678901"}'))


@given(
    st.one_of(st.none(), st.binary(max_size=20)),
    st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=10))), max_size=4),
)
def test_keys_and_headers_of_any_bytes_can_be_read_back(
    key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    request = json.loads(MessageReader().request(record(b"{}", key_=key, headers_=headers)))
    assert list(request)[:6] == ["topic", "partition", "offset", "key", "ts", "headers"]
    encoded = request.get("key_encoding")
    assert (base64.b64decode(request["key"]) if encoded else request["key"].encode()) == (key or b"")
    encodings = request.get("headers_encoding") or [None] * len(headers)
    read = [
        (name, None if text is None else base64.b64decode(text) if how else text.encode())
        for (name, text), how in zip(request["headers"], encodings, strict=True)
    ]
    assert read == headers
    assert ("headers_encoding" in request) == any(how for how in encodings)
