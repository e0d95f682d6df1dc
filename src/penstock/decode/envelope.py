"""Events of a source of the user's own: they arrive as envelopes, and are kept as DataHub's text of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

import orjson

from penstock.core.errors import PenstockError, Terminal
from penstock.core.event import Event, Headers, RecordLike, json_default
from penstock.core.plugin import Decoder, PipelineContext


class NotAnEnvelope(PenstockError, Terminal):
    """What is kept of an event is not the text of an envelope."""

    code = "envelope"


class Arrival:
    """An envelope in the place of a Kafka record: its text is the value, its number the offset."""

    __slots__ = ("_first", "_number", "_stamp", "_text", "_topic", "envelope", "problem")

    def __init__(self, topic: str, number: int, envelope: Any, stamp: int) -> None:
        self.envelope = envelope
        """The source's own object, to be acknowledged by."""
        self.problem: Exception | None = None
        """Why it must not be worked on."""
        self._topic, self._number, self._stamp = topic, number, stamp
        self._text = text_of(envelope)
        self._first = True

    def first_time(self) -> bool:
        """True once: steps change what they are given, so a later attempt takes the text."""
        first, self._first = self._first, False
        return first

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._number

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return self._text

    def headers(self) -> Headers | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, self._stamp


def text_of(envelope: Any) -> bytes:
    """The envelope as JSON text; one whose event has no such text is described as well as can be."""
    try:
        return str(envelope.as_json()).encode()
    except Exception:  # noqa: BLE001 - the event is the user's; that it cannot be written is no reason not to act on it
        parts = {"event_type": envelope.event_type, "event": repr(envelope.event), "meta": envelope.meta}
        return orjson.dumps(parts, default=json_default, option=orjson.OPT_NON_STR_KEYS)


class EnvelopeDecoder(Decoder):
    """Makes events of envelopes as they arrive, or of their texts."""

    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception]:
        return [_decoded(record) for record in records]


def _decoded(record: RecordLike) -> Event | Exception:
    if isinstance(record, Arrival) and record.problem is not None:
        return record.problem
    try:
        parts = orjson.loads(record.value() or b"")
        event_type, value = sys.intern(str(parts["event_type"])), parts["event"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        return NotAnEnvelope(f"this is no envelope: {error}", hint="a map with event_type, event and meta is wanted")
    event = Event(record, value, event_type)
    if isinstance(record, Arrival) and record.first_time():
        event.event, event.meta = record.envelope.event, record.envelope.meta
        event.envelope = record.envelope
        return event
    typed = _typed(event_type, value)
    if typed is not None:
        event.event = typed
    event.meta = parts.get("meta") or {}
    return event


def _typed(event_type: str, value: Any) -> Any:
    """The event as an object of its class; None where the type is not in DataHub's registry of events."""
    try:
        registry = import_module("datahub_actions.event.event_registry").event_registry
        return registry.get(event_type).from_json(orjson.dumps(value).decode())
    except Exception:  # noqa: BLE001 - an event of the user's own class: its value is there all the same
        return None
