"""Turns exceptions into failures: bounded text, a fingerprint for grouping, no secrets."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

from penstock.core.dead_letter import Failure, Stage
from penstock.core.errors import PenstockError
from penstock.core.event import Event, Record, json_bytes
from penstock.pipeline.chain import Item
from penstock.pipeline.messages import FailedEvent
from penstock.pipeline.retry import RetryState

Frames = tuple[tuple[CodeType, int], ...]

_stacks: dict[Frames, str] = {}
_STACKS_AT_MOST = 1_000
_MESSAGE_LIMIT = 4_000
_TRACEBACK_LIMIT = 16_000
_VALUE_LIMIT = 64_000
"""A dead letter keeps the original bytes anyway; the value seen is a help for the eye."""


def failed_event(
    item: Item, stage: Stage, error: BaseException, scrub: Callable[[str], str], tries: RetryState | None = None
) -> FailedEvent:
    """The failure of one event, ready to travel to the driver."""
    now = int(time.time() * 1000)
    cause = error.__cause__ if isinstance(error, PenstockError) and error.__cause__ else error
    return FailedEvent(
        Record.of(item.record),
        Failure(
            stage=stage,
            error_code=error.code if isinstance(error, PenstockError) else type(error).__name__,
            error_class=f"{type(error).__module__}.{type(error).__qualname__}",
            error=scrub(str(error) or type(error).__name__)[:_MESSAGE_LIMIT],
            traceback=scrub(_traceback(cause))[-_TRACEBACK_LIMIT:],
            fingerprint=_fingerprint(stage, error),
            attempts=tries.attempts + 1 if tries else 1,
            first_failed_at=tries.first_failed_at if tries else now,
            last_failed_at=now,
            value_seen=_seen(item.value),
            schema_id=getattr(error, "schema_id", None),
        ),
        _event_type(item),
    )


def _event_type(item: Item) -> str:
    event = item if isinstance(item, Event) else item.event
    return event.event_type if event else ""


def _fingerprint(stage: Stage, error: BaseException) -> str:
    """Same class raised from the same place is the same kind of failure, whatever its text says about the event."""
    frames = _frames(error)
    place = f"{frames[-1][0].co_name}:{frames[-1][1]}" if frames else ""
    code = error.code if isinstance(error, PenstockError) else ""
    return hashlib.sha1(
        f"{stage}|{type(error).__qualname__}|{code}|{place}".encode(), usedforsecurity=False
    ).hexdigest()[:16]


def _frames(error: BaseException) -> Frames:
    found, at = [], error.__traceback__
    while at is not None:
        found.append((at.tb_frame.f_code, at.tb_lineno))
        at = at.tb_next
    return tuple(found)


def _traceback(error: BaseException) -> str:
    """As Python shows it. Formatting a stack costs more than most actions: where many events fail alike, it is done
    once."""
    told = error.__cause__ or error.__context__ or getattr(error, "__notes__", None)
    if told or isinstance(error, BaseExceptionGroup | SyntaxError):
        return "".join(traceback.format_exception(error))
    frames = _frames(error)
    stack = _stacks.get(frames)
    if stack is None:
        if len(_stacks) >= _STACKS_AT_MOST:
            _stacks.clear()
        stack = _stacks[frames] = "".join(traceback.format_tb(error.__traceback__))
    kind, text = type(error), str(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    last = f"{name}: {text}\n" if text else f"{name}\n"
    return f"Traceback (most recent call last):\n{stack}{last}" if stack else last


def _seen(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return json_bytes(value)[:_VALUE_LIMIT]
    except (TypeError, ValueError):
        return repr(value).encode("utf-8", "replace")[:_VALUE_LIMIT]
