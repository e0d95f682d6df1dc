"""A Kafka message as a dataclip: its body, and the metadata that a run sees beside it as `request`."""

from __future__ import annotations

import base64
from typing import Final, Literal, NamedTuple

import msgspec
import orjson

from penstock.core.errors import PenstockError, Terminal
from penstock.core.event import Headers, RecordLike

Accept = Literal["object", "any"]

MAX_BODY: Final = 10 * 1024 * 1024
"""Bytes of a dataclip, unless a trigger says otherwise."""

_PIECES: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LEFT_OUT: Final = "configuration"
"""A run puts credentials under this key of its state: a message must not bring its own."""


class InvalidData(PenstockError, Terminal):
    """A message that no dataclip can be made of."""

    code = "invalid_data"


class DataclipTooLarge(InvalidData):
    """A message above the size limit."""

    code = "dataclip_too_large"


class Message(NamedTuple):
    """One message, ready to be written."""

    offset: int
    body: str
    """JSON, of an object."""
    request: str
    """The six keys as JSON, and what says how key and headers are to be read where they are no text."""
    raw: bytes | None
    """The value as it was read, where the body does not say it."""
    key: bytes | None


class MessageReader:
    """Makes messages of records, by the rules of one trigger."""

    def __init__(self, accept: Accept = "object", max_bytes: int = MAX_BODY) -> None:
        self._any = accept == "any"
        self._max = max_bytes
        self._topics: dict[str, str] = {}

    def read(self, record: RecordLike) -> Message:
        """The message; `InvalidData` where its value is nothing that the trigger accepts."""
        value = record.value()
        if value is not None and len(value) > self._max:
            raise DataclipTooLarge(
                f"the value has {len(value):,} bytes; a dataclip takes {self._max:,}",
                received=len(value),
                allowed=self._max,
                hint="raise max_dataclip_bytes of the trigger, then replay the dead letter",
            )
        body, raw = self._body(value)
        return Message(record.offset(), body, self.request(record), raw, record.key())

    def _body(self, value: bytes | None) -> tuple[str, bytes | None]:
        if value is None:
            if self._any:
                return '{"value":null,"tombstone":true}', None
            raise InvalidData(
                "the message has no value: it is a tombstone",
                allowed="a JSON object",
                hint="`tombstones: skip` of the trigger leaves them out, `accept: any` takes them in",
            )
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            if self._any:
                return _wrapped(value), None
            said = "is empty" if not value else f"is not JSON: {error}"
            raise InvalidData(f"the value {said}", allowed="a JSON object", hint=_ANY) from None
        if not isinstance(found, dict):
            if self._any:
                return f'{{"value":{value.decode()}}}', None
            kind = _KINDS.get(type(found), "a number")
            raise InvalidData(f"the value is JSON, but {kind}", received=kind, allowed="a JSON object", hint=_ANY)
        if _LEFT_OUT in found:
            return _without_configuration(value), value
        return value.decode(), None

    def request(self, record: RecordLike) -> str:
        """The metadata of a record as JSON, whatever its value is."""
        topic = record.topic()
        begin = self._topics.get(topic)
        if begin is None:
            begin = self._topics[topic] = f'{{"topic":{_text(topic)},"partition":'
        key, headers, more = record.key(), record.headers(), ""
        said_key = '""'
        if key:
            try:
                said_key = _text(key.decode())
            except UnicodeDecodeError:
                said_key = _text(base64.b64encode(key).decode())
                more = ',"key_encoding":"base64"'
        said_headers = "[]"
        if headers:
            said_headers, encodings = _headers(headers)
            more += f',"headers_encoding":{encodings}' if encodings else ""
        at = f'{record.partition()},"offset":{record.offset()},"key":{said_key},"ts":{record.timestamp()[1]}'
        return f'{begin}{at},"headers":{said_headers}{more}}}'


_ANY: Final = "`accept: any` of the trigger wraps it; then replay the dead letter"
_KINDS: Final = {list: "an array", str: "a text", bool: "true or false", type(None): "null"}


def _text(text: str) -> str:
    return orjson.dumps(text).decode()


def _headers(headers: Headers) -> tuple[str, str]:
    """As JSON; then what each of them is encoded by, empty where all are text."""
    pairs: list[tuple[str, str | None]] = []
    encodings: list[str | None] = []
    for name, value in headers:
        try:
            pairs.append((name, None if value is None else value.decode()))
            encodings.append(None)
        except UnicodeDecodeError:
            pairs.append((name, base64.b64encode(value or b"").decode()))
            encodings.append("base64")
    return orjson.dumps(pairs).decode(), orjson.dumps(encodings).decode() if any(encodings) else ""


def _wrapped(value: bytes) -> str:
    """What is no JSON, in an object."""
    try:
        return f'{{"value":{_text(value.decode())},"encoding":"utf-8"}}'
    except UnicodeDecodeError:
        return f'{{"value":"{base64.b64encode(value).decode()}","encoding":"base64"}}'


def _without_configuration(value: bytes) -> str:
    """The other keys stay as they were written, long numbers included."""
    pieces = _PIECES.decode(value)
    del pieces[_LEFT_OUT]
    return msgspec.json.encode(pieces).decode()
