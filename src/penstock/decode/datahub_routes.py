"""How the records of each of DataHub's routes become events."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.core.errors import DecodeError
from penstock.core.event import ENVELOPE, Event, RecordLike
from penstock.core.plugin import Dropped, Wanted
from penstock.datahub.events import (
    ENTITY_CHANGE_EVENT_V1_TYPE,
    EVENTS,
    METADATA_CHANGE_LOG_EVENT_V1_TYPE,
    RELATIONSHIP_CHANGE_EVENT_V1_TYPE,
    MetadataChangeLogEvent,
)
from penstock.decode.datahub_pushdown import KEPT, Judge, dropped_by, judge_of, looks_into, payload_judge_of
from penstock.decode.datahub_reading import PlatformEventRecord, reader_of
from penstock.decode.framing import HEADER, first_bytes, require_frame
from penstock.decode.schemas import Schemas, Unusable, read_value

Result = Event | Exception | None
Reader = Callable[[bytes], Any]

_NAMES: Final = {
    "entityChangeEvent": ENTITY_CHANGE_EVENT_V1_TYPE,
    "relationshipChangeEvent": RELATIONSHIP_CHANGE_EVENT_V1_TYPE,
}
"""Names of platform events and their event types."""


class BadPayload(DecodeError):
    """The JSON within a platform event is not that of its kind of event."""


class Route(ABC):
    """Records of one kind. What depends on the writer schema is made once, and found by the head of the frame."""

    def __init__(self, schemas: Schemas, steps: Sequence[Wanted], dropped: Dropped) -> None:
        self._schemas = schemas
        self._steps = steps
        self._dropped = dropped
        self._unfit: dict[bytes, DecodeError] = {}

    def decode(self, record: RecordLike, unusable: Unusable) -> Result:
        raw = record.value()
        try:
            return self._decoded(record, raw)  # type: ignore[arg-type]  # a tombstone fails, as all that is unusual
        except BadPayload as error:
            return error
        except Exception:  # noqa: BLE001 - bad bytes lead to nearly anything; what exactly is wrong is found out now
            return self._carefully(record, raw, unusable)

    @abstractmethod
    def _decoded(self, record: RecordLike, raw: bytes) -> Result:
        """The fast way: raises `KeyError` for a head that was not learnt, and nearly anything on bad bytes."""

    @abstractmethod
    def _learn(self, head: bytes, schema: Any) -> None:
        """Make what reads values with this head; `DecodeError` where the schema is that of something else."""

    def _carefully(self, record: RecordLike, raw: bytes | None, unusable: Unusable) -> Result:
        if raw is None:
            return DecodeError("the record has no value: a tombstone is no event")
        if record.timestamp()[0] == ENVELOPE:
            return _from_envelope(record, raw)
        try:
            schema_id = require_frame(raw)
        except DecodeError as error:
            return error
        schema = self._schemas.find(schema_id, unusable)
        unfit = schema if isinstance(schema, Exception) else self._unfit_for(raw[:HEADER], schema, schema_id)
        return unfit or self._explained(record, raw, schema, schema_id)

    def _explained(self, record: RecordLike, raw: bytes, schema: Any, schema_id: int) -> Result:
        try:
            return self._decoded(record, raw)
        except BadPayload as error:
            return error
        except Exception as error:  # noqa: BLE001 - as above
            found = read_value(raw, schema, schema_id)
            if isinstance(found, DecodeError):
                return found
            why = str(error) or type(error).__name__
            return DecodeError(f"not Avro of schema id {schema_id}: {why[:200]}; value begins {first_bytes(raw)}")

    def _unfit_for(self, head: bytes, schema: Any, schema_id: int) -> DecodeError | None:
        if head not in self._unfit:
            try:
                self._learn(head, schema)
                return None
            except DecodeError as error:
                text = f"schema id {schema_id}: {error.message}"
                self._unfit[head] = DecodeError(text, received=error.received, allowed=error.allowed)
        return self._unfit[head]


class ChangeLogs(Route):
    """MetadataChangeLog, versioned and timeseries."""

    def __init__(self, schemas: Schemas, steps: Sequence[Wanted], dropped: Dropped) -> None:
        super().__init__(schemas, steps, dropped)
        self._plans: dict[bytes, tuple[Judge | None, Reader]] = {}
        self._none_wanted = dropped_by(steps, METADATA_CHANGE_LOG_EVENT_V1_TYPE) != KEPT
        self._looks = looks_into(steps, METADATA_CHANGE_LOG_EVENT_V1_TYPE)

    def _decoded(self, record: RecordLike, raw: bytes) -> Result:
        if self._none_wanted:
            self._count("entirely_rejected")
            return None
        judge, read = self._plans[raw[:HEADER]]
        if judge is not None and _judged(judge, raw) != KEPT:
            self._count("rejected")
            return None
        event = read(raw)
        if judge is not None:
            self._count("passed")
        return Event(record, event, METADATA_CHANGE_LOG_EVENT_V1_TYPE, event)

    def _count(self, answer: str) -> None:
        early = self._dropped.early
        early[answer] = early.get(answer, 0) + 1

    def _learn(self, head: bytes, schema: Any) -> None:
        read = reader_of(schema, MetadataChangeLogEvent)
        judge = None
        if self._looks:
            judge = judge_of(schema, MetadataChangeLogEvent, self._steps, METADATA_CHANGE_LOG_EVENT_V1_TYPE)
        self._plans[head] = judge, read


@dataclass(slots=True, frozen=True)
class _Payload:
    """How the payload of a platform event of one name is read."""

    event_type: str
    read: Reader
    dropped_by: int
    judge: Judge | None


class PlatformEvents(Route):
    """PlatformEvent: an event as JSON, within an Avro record that names it."""

    def __init__(self, schemas: Schemas, steps: Sequence[Wanted], dropped: Dropped) -> None:
        super().__init__(schemas, steps, dropped)
        self._readers: dict[bytes, Reader] = {}
        self._payloads = {name: _payload(event_type, steps) for name, event_type in _NAMES.items()}

    def _decoded(self, record: RecordLike, raw: bytes) -> Result:
        platform = self._readers[raw[:HEADER]](raw)
        payload = self._payloads.get(platform.name)
        if payload is None:
            self._dropped.unrouted += 1
            return None
        text = platform.payload.value
        step = payload.dropped_by
        if step == KEPT and payload.judge is not None:
            step = _judged(payload.judge, text)
        if step != KEPT:
            by_step = self._dropped.by_step
            by_step[step] = by_step.get(step, 0) + 1
            return None
        try:
            event = payload.read(text)
        except (ValueError, TypeError, RecursionError) as error:
            why = str(error) or type(error).__name__
            raise BadPayload(f"the payload of {platform.name}: {why[:300]}; it begins {first_bytes(text)}") from None
        return Event(record, event, payload.event_type, event)

    def _learn(self, head: bytes, schema: Any) -> None:
        self._readers[head] = reader_of(schema, PlatformEventRecord)


def _payload(event_type: str, steps: Sequence[Wanted]) -> _Payload:
    kind = EVENTS[event_type]
    judge = payload_judge_of(kind, steps, event_type) if looks_into(steps, event_type) else None
    return _Payload(event_type, kind.from_json, dropped_by(steps, event_type), judge)


def _judged(judge: Judge, raw: bytes) -> int:
    try:
        return judge(raw)
    except Exception:  # noqa: BLE001 - what cannot be answered from a part is decided by the whole
        return KEPT


def _from_envelope(record: RecordLike, raw: bytes) -> Result:
    """The event of an envelope's text."""
    try:
        parts = json.loads(raw)
        kind = EVENTS.get(parts["event_type"])
        if kind is None:
            return DecodeError(
                f"an envelope of the type {parts['event_type']}", received=parts["event_type"], allowed=[*EVENTS]
            )
        event = kind.from_json(json.dumps(parts["event"]))
        # Interned, the text is the very object of its constant.
        return Event(record, event, sys.intern(parts["event_type"]), event, parts.get("meta") or {})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return DecodeError(
            f"not the text of an envelope: {type(error).__name__}: {error}; it begins {first_bytes(raw)}"
        )
