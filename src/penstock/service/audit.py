"""Writes down who changes what: before a change is begun, and again how it ended."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.core.errors import PenstockError
from penstock.service.access import Actor, system_actor
from penstock.service.pipelines import person
from penstock.store import Store

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
        store.audit.end(number, "failed", data=change.data | {"error": code})
        raise
    store.audit.end(number, "done", after=bounded(change.after), data=change.data)


def by_command(
    store: Store, action: str, subject: str, data: Mapping[str, Any] | None = None
) -> AbstractContextManager[Change]:
    """The same for the command line, where whoever sits at the machine acts."""
    return audited(store, system_actor(person()), action, subject, data=data)


def bounded(text: str | None) -> str | None:
    """A text as the record keeps it."""
    if text is None or len(text) <= _LONGEST:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()} ({len(text)} characters)"
