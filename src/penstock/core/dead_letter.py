"""Dead letters: events that ended in failure, with all that a replay needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from penstock.core.event import Headers

Stage = Literal["decode", "filter", "transform", "act", "write", "timeout", "crash"]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong with one event, as plain text and numbers: it travels from the executor to the driver."""

    stage: Stage
    error_code: str
    """Stable code of a `PenstockError`, else the exception's class name."""
    error_class: str
    error: str
    """The message, bounded."""
    traceback: str
    """Bounded, secrets scrubbed; empty where it would say nothing."""
    fingerprint: str
    """Same for failures of the same kind at the same place, for grouping."""
    attempts: int
    first_failed_at: int
    """Epoch milliseconds."""
    last_failed_at: int
    value_seen: bytes | None = None
    """The value as the failing stage saw it, as bounded JSON; None where there was none."""
    schema_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One failed event with its context. I3: bytes, key, headers, coordinates and timestamp are the record's own."""

    pipeline: str
    spec_version: str
    group: str
    topic: str
    topic_id: str
    """Kafka's id of the topic; `cluster id/name` where the broker gives none."""
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    timestamp_type: int
    failure: Failure
