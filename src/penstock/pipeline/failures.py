"""Turns exceptions into failures: bounded text, a fingerprint for grouping, no secrets."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Failure, Stage
from penstock.core.errors import PenstockError
from penstock.core.event import Event, Record, json_bytes
from penstock.pipeline.items import Item
from penstock.pipeline.messages import FailedEvent
from penstock.pipeline.retry import RetryState

T = TypeVar("T")
Frames = tuple[tuple[CodeType, int], ...]

_stacks: dict[Frames, str] = {}
_STACKS_AT_MOST = 1_000
_MESSAGE_LIMIT = 4_000
_TRACEBACK_LIMIT = 16_000
_VALUE_LIMIT = 64_000
"""A dead letter keeps the original bytes anyway; the value seen is a help for the eye."""


def failed_event(
    item: Item,
    stage: Stage,
    error: BaseException,
    scrub: Callable[[str], str],
    state: RetryState | None = None,
    *,
    clock: Clock = SYSTEM,
) -> FailedEvent:
    """The failure of one event, ready to travel to the driver.

    L3: it always can be described: where an exception or a value of the user's own raises while it is, less is said.
    """
    now = clock.now_ms()
    cause = error.__cause__ if isinstance(error, PenstockError) and error.__cause__ else error
    return FailedEvent(
        Record.of(item.record),
        Failure(
            stage=stage,
            error_code=_code(error),
            error_class=f"{type(error).__module__}.{type(error).__qualname__}",
            error=error_text(error, scrub),
            traceback=_described(lambda: scrub(_traceback(cause))[-_TRACEBACK_LIMIT:], ""),
            fingerprint=_fingerprint(stage, error),
            attempts=state.attempts + 1 if state else 1,
            first_failed_at=min(state.first_failed_at, now) if state else now,
            last_failed_at=now,
            value_seen=_described(lambda: _seen(item.value), None),
            schema_id=_described(lambda: _schema_id(error), None),
        ),
        _described(lambda: _event_type(item), ""),
    )


def error_text(error: BaseException, scrub: Callable[[str], str]) -> str:
    """What an error says, bounded and without secrets; its class where it says nothing."""
    name = type(error).__name__
    return _described(lambda: scrub(str(error) or name)[:_MESSAGE_LIMIT], name)


def _described(describe: Callable[[], T], otherwise: T) -> T:
    try:
        return describe()
    except Exception:  # noqa: BLE001 - code of the user's own (`__str__`, `__repr__`, properties) may raise anything
        return otherwise


def _code(error: BaseException) -> str:
    code = _described(lambda: error.code, None) if isinstance(error, PenstockError) else None
    return code if isinstance(code, str) else type(error).__name__


def _schema_id(error: BaseException) -> int | None:
    found = getattr(error, "schema_id", None)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 63 else None


def _event_type(item: Item) -> str:
    event = item if isinstance(item, Event) else item.event
    # A transform of the user's own may have put anything there.
    return str(event.event_type) if event else ""


def _fingerprint(stage: Stage, error: BaseException) -> str:
    """Same class raised from the same place is the same kind of failure, whatever its text says about the event."""
    frames = _frames(error)
    place = f"{frames[-1][0].co_name}:{frames[-1][1]}" if frames else ""
    code = _code(error) if isinstance(error, PenstockError) else ""
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
    except Exception:  # noqa: BLE001 - a value of the user's own: deep, circular, or raising while it is written
        return repr(value).encode("utf-8", "replace")[:_VALUE_LIMIT]
