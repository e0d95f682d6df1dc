"""The record of changes, for those who answer for them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.core.clock import format_time
from penstock.service.access import Actor, require
from penstock.service.dead_letters import which_letters
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import Text, View
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.store import AuditFilter, AuditRow


class AuditQuery(BaseModel):
    """Which changes; what is absent does not matter."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    actor: Text | None = None
    action: Text | None = None
    """As `pipelines.pause`."""
    subject: Text | None = None
    """As `pipeline/orders`."""
    since: Text | None = None
    """A time, a time ago like `2h`, or epoch milliseconds."""
    until: Text | None = None

    def filter(self) -> AuditFilter:
        times = which_letters(since=self.since, until=self.until)
        return AuditFilter(
            actor=self.actor, action=self.action, subject=self.subject, since=times.since, until=times.until
        )


class AuditEntry(View):
    """One change."""

    id: int
    at: str
    actor: str
    actor_kind: str
    address: str | None = None
    """Where the request came from."""
    action: str
    subject: str
    project: str | None = None
    outcome: Literal["begun", "done", "failed"]
    """`begun`: its process ended before the change did."""
    before: str | None = None
    after: str | None = None
    data: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, row: AuditRow) -> AuditEntry:
        return cls(
            id=row.id,
            at=format_time(row.at),
            actor=row.actor,
            actor_kind=row.actor_kind,
            address=row.address,
            action=row.action,
            subject=row.subject,
            project=row.project_id,
            outcome=row.outcome,
            before=row.before,
            after=row.after,
            data=row.data,
        )


def list_audit(
    desk: Desk, actor: Actor, query: AuditQuery, *, limit: int = 100, after: str | None = None
) -> Page[AuditEntry]:
    """Newest first."""
    require(actor, "audit.view")
    place = place_of(after, int)
    rows = desk.store.audit.list(query.filter(), limit=checked_limit(limit) + 1, before=place[0] if place else None)
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(items=[AuditEntry.of(row) for row in rows], next=cursor(rows[-1].id) if more else None)
