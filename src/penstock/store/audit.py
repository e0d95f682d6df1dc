"""The record of who changed what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from penstock.store.access_tables import audit
from penstock.store.database import Database

Outcome = Literal["begun", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One change."""

    id: int
    at: int
    """Epoch milliseconds."""
    actor: str
    actor_kind: str
    address: str | None
    action: str
    """What was done, as `pipelines.pause`."""
    subject: str
    """On what, as `pipeline/orders`."""
    project_id: str | None
    outcome: Outcome
    before: str | None
    after: str | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which changes; what is None does not matter."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    since: int | None = None
    until: int | None = None


Rows = list[AuditRow]
"""Within the class, `list` is a method."""


class AuditLog:
    """The repository of changes. Rows are added and completed, never removed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self,
        action: str,
        subject: str,
        *,
        actor: str,
        actor_kind: str,
        address: str | None = None,
        project_id: str | None = None,
        before: str | None = None,
        data: Mapping[str, Any] | None = None,
        outcome: Outcome = "begun",
    ) -> int:
        """Write down that a change begins, or what has happened already; its number."""
        with self._database.write() as connection:
            values = {
                "at": self._database.now(connection),
                "actor": actor,
                "actor_kind": actor_kind,
                "address": address,
                "action": action,
                "subject": subject,
                "project_id": project_id,
                "outcome": outcome,
                "before": before,
                "data": dict(data or {}),
            }
            number = connection.execute(sa.insert(audit).values(values).returning(audit.c.id)).scalar_one()
        return int(number)

    def end(
        self, number: int, outcome: Outcome, *, after: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """How it ended; `data` replaces what was written at its beginning, if given."""
        values: dict[str, Any] = {"outcome": outcome, "after": after}
        if data is not None:
            values["data"] = dict(data)
        with self._database.write() as connection:
            connection.execute(sa.update(audit).where(audit.c.id == number).values(values))

    def list(self, which: AuditFilter | None = None, *, limit: int = 100, before: int | None = None) -> Rows:
        """Newest first; `before` goes on behind the row with this number."""
        which = which or AuditFilter()
        c = audit.c
        query = sa.select(audit)
        for name in ("actor", "action", "subject"):
            if (wanted := getattr(which, name)) is not None:
                query = query.where(c[name] == wanted)
        if which.since is not None:
            query = query.where(c.at >= which.since)
        if which.until is not None:
            query = query.where(c.at < which.until)
        if before is not None:
            query = query.where(c.id < before)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(c.id.desc()).limit(limit)).mappings()
            return [AuditRow(**row) for row in found]
