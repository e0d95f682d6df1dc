"""Writes down who changes what, before a change is begun and again how it ended; who reads payloads; and who is
refused. Each row is also a line of the log, which can be kept where nobody who writes to the store reaches it."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError
from penstock.service.access import Actor, system_actor
from penstock.service.pipelines import person
from penstock.store import Store

log = structlog.get_logger("penstock.audit")

_LONGEST: Final = 20_000
"""Characters of a text that is kept whole; of a longer one its digest is."""


@dataclass(slots=True)
class Change:
    """A change under way; what is set here is kept with it."""

    after: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


@contextmanager
def audited(
    store: Store,
    actor: Actor,
    action: str,
    subject: str,
    *,
    project: str | None = None,
    before: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> Iterator[Change]:
    """Around a change. Where the row cannot be written, nothing is changed."""
    change = Change(data=dict(data or {}))
    number = store.audit.begin(
        action,
        subject,
        actor=actor.name,
        actor_kind=actor.kind,
        address=actor.address,
        project_id=project,
        before=bounded(before),
        data=change.data,
    )
    try:
        yield change
    except BaseException as error:
        code = error.code if isinstance(error, PenstockError) else type(error).__name__
        change.data["error"] = code
        store.audit.end(number, "failed", data=change.data)
        _log(actor, number, "failed", change.data, action=action, subject=subject, project=project)
        raise
    store.audit.end(number, "done", after=bounded(change.after), data=change.data)
    _log(actor, number, "done", change.data, action=action, subject=subject, project=project)


def record(
    store: Store,
    actor: Actor,
    action: str,
    subject: str,
    *,
    project: str | None = None,
    outcome: Literal["done", "failed"] = "done",
    data: Mapping[str, Any] | None = None,
) -> None:
    """Write down what happens at this moment: a read, a refusal, a log-in that failed."""
    number = store.audit.begin(
        action,
        subject,
        actor=actor.name,
        actor_kind=actor.kind,
        address=actor.address,
        project_id=project,
        data=data,
        outcome=outcome,
    )
    _log(actor, number, outcome, data or {}, action=action, subject=subject, project=project)


def _log(actor: Actor, number: int, outcome: str, data: Mapping[str, Any], **what: str | None) -> None:
    if not structlog.is_configured():
        return  # a command of the command line, which has no log
    by = {"actor": actor.name, "actor_kind": actor.kind, "address": actor.address}
    log.info("audit", **what, outcome=outcome, **by, data=dict(data), row=number)


class Recent:
    """What was written down a while ago, so that a page that looks every two seconds makes one row. Threads may share
    it."""

    def __init__(self, seconds: float, most: int = 10_000, clock: Clock = SYSTEM) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._known: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._lock = threading.Lock()

    def is_new(self, *key: str) -> bool:
        """Whether it was not asked for within so many seconds."""
        now = self._clock.monotonic()
        with self._lock:
            if now < self._known.get(key, now):
                return False
            self._known[key] = now + self._seconds
            self._known.move_to_end(key)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
            return True


def by_command(
    store: Store, action: str, subject: str, data: Mapping[str, Any] | None = None, project: str | None = None
) -> AbstractContextManager[Change]:
    """The same for the command line, where whoever sits at the machine acts."""
    return audited(store, system_actor(person()), action, subject, data=data, project=project)


def bounded(text: str | None) -> str | None:
    """A text as the record keeps it."""
    if text is None or len(text) <= _LONGEST:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()} ({len(text)} characters)"
