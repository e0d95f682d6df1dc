"""What is said of messages that were not taken in: log lines with Lightning's tokens, the error tracker, and what
gathers in the store until the project's admins are told."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from penstock.core.clock import SYSTEM
from penstock.core.event import RecordLike
from penstock.store.workflow_tables import triggers

log = logging.getLogger("penstock.work_order")

DUPLICATE: Final = "Kafka Pipeline Duplicate Message:"
ERROR: Final = "Kafka Pipeline Error:"
PERSISTENCE: Final = "persistence"
_TITLE: Final = "Kafka pipeline - message processing error"
_STORAGE_TITLE: Final = "Kafka pipeline - alternate storage failed: {}"
_SHOWN: Final = 20
"""Messages of one kind that a notice names; it counts the others."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A message, as log lines name it. The payload is never logged."""

    trigger: str
    topic: str
    partition: int
    offset: int
    key: str

    @classmethod
    def of(cls, trigger: str, record: RecordLike) -> Subject:
        key = (record.key() or b"").decode("utf-8", "backslashreplace")
        return cls(trigger, record.topic(), record.partition(), record.offset(), key)

    @property
    def where(self) -> str:
        at = f"Topic `{self.topic}` Partition `{self.partition}` Offset `{self.offset}`"
        return f"Trigger_id `{self.trigger}` {at}"


def tell_duplicate(subject: Subject) -> None:
    """A message that had been taken in before."""
    log.warning("%s %s", DUPLICATE, subject.where)


def tell_error(subject: Subject, outcome: str) -> None:
    """A message that was not taken in."""
    log.error("%s Type `%s` %s Key `%s`", ERROR, outcome, subject.where, subject.key)
    _track(_TITLE, subject, {"type": outcome})


def tell_storage_error(subject: Subject, reason: str) -> None:
    """A message that could not be copied to a file."""
    log.error("%s Type `alternate_storage_failed: %s` %s Key `%s`", ERROR, reason, subject.where, subject.key)
    _track(_STORAGE_TITLE.format(reason), subject, {})


def gather(connection: sa.Connection, trigger: str, offsets: Sequence[tuple[str, int, int]], now: int) -> None:
    """Messages that the database refused, for the next notice; within the transaction that makes them dead letters."""
    t = triggers.c
    found = connection.execute(sa.select(t.unreported).where(t.id == trigger).with_for_update()).one_or_none()
    if found is not None:
        changed = sa.update(triggers).where(t.id == trigger)
        connection.execute(changed.values(unreported=_added(found.unreported or {}, offsets, now)))


def _added(before: Mapping[str, Any], offsets: Sequence[tuple[str, int, int]], now: int) -> dict[str, Any]:
    named = [*before.get("messages", ()), *(f"{topic}/{partition}@{offset}" for topic, partition, offset in offsets)]
    return {
        "count": before.get("count", 0) + len(offsets),
        "since": before.get("since", now),
        "until": now,
        "messages": named[:_SHOWN],
    }


def _track(title: str, subject: Subject, more: Mapping[str, str]) -> None:
    """To Sentry, where it is configured and installed."""
    address = SYSTEM.environ.get("SENTRY_DSN")
    if not address:
        return
    try:
        sentry: Any = importlib.import_module("sentry_sdk")
    except ImportError:
        return
    if not sentry.is_initialized():
        sentry.init(dsn=address)
    extra = {name: getattr(subject, name) for name in ("key", "offset", "partition", "topic")}
    with sentry.new_scope() as scope:
        for name, value in {**extra, "trigger_id": subject.trigger, **more}.items():
            scope.set_extra(name, value)
        sentry.capture_message(title, level="error")
