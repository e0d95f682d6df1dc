"""Events: a Kafka record on its way, and what user code sees of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson

Headers = list[tuple[str, bytes | None]]

TIMESTAMP_TYPES = ("none", "create", "append")
"""Names of Kafka's timestamp types, by their number in the client."""
ENVELOPE = -1
"""In the place of a timestamp type: the value is the text of an envelope that DataHub kept, not a record's own bytes.
No record that a client reads can say so."""


class RecordLike(Protocol):
    """The part of the Kafka client's message that Penstock reads; the client's own objects fit as they are."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...
    def timestamp(self) -> tuple[int, int]: ...


class _Record(NamedTuple):
    topic_: str
    partition_: int
    offset_: int
    key_: bytes | None = None
    value_: bytes | None = None
    headers_: Headers | None = None
    timestamp_: int = -1
    timestamp_type_: int = 0


class Record(_Record):
    """A Kafka record as plain data: it can be pickled, kept and compared."""

    __slots__ = ()

    @classmethod
    def of(cls, source: RecordLike) -> Record:
        """Copy a client message; I3: bytes, key, repeated headers and their order stay as they are."""
        kind, millis = source.timestamp()
        headers = source.headers()
        return cls(
            source.topic(),
            source.partition(),
            source.offset(),
            source.key(),
            source.value(),
            list(headers) if headers else None,
            millis,
            kind,
        )

    def topic(self) -> str:
        return self.topic_

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> Headers | None:
        return self.headers_

    def timestamp(self) -> tuple[int, int]:
        return self.timestamp_type_, self.timestamp_


class Event(msgspec.Struct, eq=False, gc=False):
    """One Kafka record on its way through a pipeline; user code receives it as the envelope.

    The envelope has `event_type`, `event` and `meta`, as DataHub's has. `event` is a `Body`: the decoded value with
    key, headers and timestamp beside it. Everything but `value` is taken from the record when it is asked for, so an
    action that looks at the value only pays for nothing else.
    """

    # A Struct is made in a third of the time of a class with slots, and the collector does not visit it (gc=False):
    # a fifth of the time of decoding a small JSON batch. So nothing that an event holds may point back at it.

    record: RecordLike
    value: Any = None
    event_type: str = ""
    _event: Any = msgspec.UNSET
    _meta: dict[str, Any] | None = None
    envelope: Any = None
    """What plug-ins written for another system were given of it; made anew when the event in it is replaced."""

    @property
    def event(self) -> Any:
        """The decoded event; a `Body` unless a decoder or transform put another object here."""
        return Body(self) if self._event is msgspec.UNSET else self._event

    @event.setter
    def event(self, event: Any) -> None:
        self._event = event
        self.envelope = None

    @property
    def meta(self) -> dict[str, Any]:
        """`{"kafka": {"topic", "offset", "partition"}}`, and what transforms add to it."""
        if self._meta is None:
            r = self.record
            self._meta = {"kafka": {"topic": r.topic(), "offset": r.offset(), "partition": r.partition()}}
        return self._meta

    @meta.setter
    def meta(self, meta: dict[str, Any]) -> None:
        self._meta = meta
        self.envelope = None

    @property
    def key(self) -> bytes | None:
        return self.record.key()

    @property
    def headers(self) -> Headers:
        return self.record.headers() or []

    @property
    def timestamp(self) -> int:
        """Epoch milliseconds; -1 when the record has none."""
        return self.record.timestamp()[1]

    def replaced(self, value: Any) -> Event:
        """The same record with another value: what a transform returns."""
        return Event(self.record, value, self.event_type)

    def as_json(self) -> str:
        """The envelope as JSON text: `event_type`, `event`, `meta`, in this order."""
        body = self.event.as_json()
        try:
            # The form of Python's own library, blanks and all: DataHub's text, byte for byte.
            meta = json.dumps(self.meta, default=json_default)
        except (TypeError, ValueError):
            meta = "null"
        return f'{{ "event_type": {json.dumps(self.event_type)}, "event": {body}, "meta": {meta} }}'

    def __repr__(self) -> str:
        r = self.record
        return f"<Event {self.event_type} {r.topic()}/{r.partition()}@{r.offset()}>"


class Body(Mapping[str, Any]):
    """The decoded event as user code sees it.

    A mapping of the value (where the value is one) with `value`, `key`, `headers` and `timestamp` as attributes.
    """

    __slots__ = ("_envelope",)

    def __init__(self, envelope: Event) -> None:
        self._envelope = envelope

    @property
    def value(self) -> Any:
        return self._envelope.value

    @property
    def key(self) -> bytes | None:
        return self._envelope.key

    @property
    def headers(self) -> Headers:
        return self._envelope.headers

    @property
    def timestamp(self) -> int:
        return self._envelope.timestamp

    def _mapping(self) -> Mapping[str, Any]:
        value = self._envelope.value
        return value if isinstance(value, Mapping) else {}

    def __getitem__(self, name: str) -> Any:
        return self._mapping()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self.value == other.value

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return True

    def as_json(self) -> str:
        """The value as JSON text."""
        return json_bytes(self.value).decode()

    def __repr__(self) -> str:
        return f"Body({self.value!r})"


def json_bytes(value: object) -> bytes:
    """Any decoded value as JSON; integers of any size keep all their digits."""
    try:
        return orjson.dumps(value, default=json_default, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # orjson refuses integers beyond 64 bits; msgspec takes them, but has forms of its own for other types.
        return msgspec.json.encode(_plain(value))


def _plain(value: Any) -> Any:
    """The value made of dicts, lists, texts and numbers only."""
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return orjson.loads(orjson.dumps(value, default=json_default))


def json_default(value: object) -> Any:
    """What JSON has no form for: bytes as text where they are UTF-8, else as base64; anything else as its text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return base64.b64encode(raw).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    as_obj: Callable[[], object] | None = getattr(value, "plain", None) or getattr(value, "to_obj", None)
    return as_obj() if as_obj else str(value)
