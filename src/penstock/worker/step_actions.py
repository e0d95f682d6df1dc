"""Registered actions as steps of workflows: the state of the run is their event."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from penstock.act.registry import actions
from penstock.core.errors import PenstockError, Transient
from penstock.core.event import Event, Record, json_bytes
from penstock.core.plugin import Action, PipelineContext
from penstock.core.threads import THREADS
from penstock.tables.action import SqlAction
from penstock.tables.cursor import Place
from penstock.workflows.failing import StepFailed
from penstock.workflows.steps.step import ActOn, State

_EVENT_TYPE = "workflow_state"


def make_action(kind: str, config: dict[str, Any], folder: str | None) -> tuple[ActOn, Callable[[], None]]:
    """An action, made once, for all runs of this process."""
    action = actions.create(kind, config, PipelineContext("workflow", folder=folder))
    turn: AbstractContextManager[Any] = nullcontext() if action.parallel_safe else threading.Lock()
    call = _call_of(action)

    def act(state: State) -> None:
        try:
            with turn:
                result = call(_event(state))
        except PenstockError as error:
            if isinstance(error, (Transient, StepFailed)):
                raise
            raise StepFailed(error.message, received=error.received, hint=error.hint) from error
        if result is not None and result is not True:
            raise StepFailed(f"the action {kind} returned {result!r}", received=result, allowed="None or True")

    return act, action.close


def _call_of(action: Action) -> Callable[[Event], Any]:
    if isinstance(action, SqlAction):
        return lambda event: _write(action, event)
    batch: Callable[[list[Event]], Any] | None = getattr(action, "act_batch", None)
    if batch is not None:
        return lambda event: _only(batch([event]))
    return lambda event: _awaited(action.act(event))


def _write(action: SqlAction[Any], event: Event) -> None:
    """A step writes whenever it is executed: there is no cursor to ask."""
    prepared = [(event, action.prepare(event))]
    place = Place("workflow", "", event.record.partition(), event.record.topic())
    with action.target.transaction() as connection:
        taken = action.take(connection, place, prepared)
        for _, error in taken.refused:
            raise error
        if taken.cut is not None:
            raise taken.cut[1]


def _only(results: Any) -> Any:
    result = _awaited(results)[0]
    if isinstance(result, Exception):
        raise result
    return result


def _awaited(result: Any) -> Any:
    return _LOOP.wait(result) if inspect.iscoroutine(result) else result


class _Loop:
    """One event loop per process for actions that want one: their connections belong to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                THREADS.start(
                    "step-actions", self._loop.run_forever, owner="step_actions", ends="with the lane's process"
                )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


_LOOP = _Loop()


def _event(state: State) -> Event:
    """The state as an event, with the coordinates of the message that the run came from."""
    request = state.get("request")
    given: dict[str, Any] = request if isinstance(request, dict) else {}
    key = given.get("key")
    record = Record(
        str(given.get("topic", "")),
        _number(given.get("partition")),
        _number(given.get("offset")),
        key.encode() if isinstance(key, str) and key else None,
        json_bytes(state),
        None,
        _number(given.get("ts"), -1),
    )
    return Event(record, state, _EVENT_TYPE)


def _number(value: Any, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
