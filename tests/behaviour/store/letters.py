"""Dead letters for the store's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from penstock.core.dead_letter import DeadLetter, Failure

_FAILURE = Failure(
    stage="act",
    error_code="ValueError",
    error_class="builtins.ValueError",
    error="no such order",
    traceback="Traceback…",
    fingerprint="f1",
    attempts=1,
    first_failed_at=1_767_225_600_000,
    last_failed_at=1_767_225_600_123,
    value_seen=b'{"order": 1}',
    schema_id=7,
)
_LETTER = DeadLetter(
    pipeline="orders",
    spec_version="v1",
    group="orders-group",
    topic="orders-in",
    topic_id="id-1",
    partition=0,
    offset=0,
    key=b"k",
    value=b"v",
    headers=[],
    timestamp=1_767_225_500_000,
    timestamp_type=1,
    failure=_FAILURE,
)
_FAILURE_FIELDS = frozenset(Failure.__struct_fields__)


def letter(offset: int = 0, **changes: Any) -> DeadLetter:
    """A letter with defaults; names of failure fields change the failure."""
    failure = structs.replace(_FAILURE, **{name: value for name, value in changes.items() if name in _FAILURE_FIELDS})
    others = {name: value for name, value in changes.items() if name not in _FAILURE_FIELDS}
    return replace(_LETTER, offset=offset, failure=failure, **others)


def failed_at(millis: int) -> dict[str, int]:
    """Both times of a failure."""
    return {"first_failed_at": millis, "last_failed_at": millis}
