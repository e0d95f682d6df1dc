"""Digests for the admins of projects: leased by one instance at a time, removed from the store when they were sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.workflow_tables import members, projects, triggers, users, workflows

ADMINS: Final = ("owner", "admin")
LEASE: Final = 300.0
"""Seconds that an instance has to send a digest; after them another one sends it. Longer than all addresses of a
project may take together."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Failures of one trigger since the last notice."""

    trigger: str
    trigger_name: str
    workflow: str
    workflow_name: str
    project: str
    project_name: str
    settings: dict[str, Any]
    """Of the project; `notify` has the addresses for apprise."""
    recipients: tuple[str, ...]
    """E-mail addresses of its admins."""
    gathered: dict[str, Any]
    """`count`, `since`, `until` (epoch microseconds), `messages`."""
    before: int | None
    """When the admins were last told."""
    lease: int | None = None
    """End of the lease by which it was taken: epoch microseconds, and what tells it from an earlier one."""


class NoticeBoard:
    """Reads and marks what has gathered."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, embargo: float) -> list[Notice]:
        """Lease what may be sent now. The caller ends each lease with `confirm` or `release`; what neither happens to
        is leased again when its lease has ended."""
        t = triggers.c
        has_news = sa.type_coerce(t.unreported, sa.Text()) != "{}"
        with self._database.read() as connection:
            if connection.scalar(sa.select(sa.func.count()).select_from(triggers).where(has_news)) == 0:
                return []
        with self._database.write() as connection:
            now = self._database.micros(connection)
            lease = now + int(LEASE * 1_000_000)
            may = sa.or_(t.notified_at.is_(None), t.notified_at < now - int(embargo * 1_000_000))
            free = sa.or_(t.notifying_until.is_(None), t.notifying_until < now)
            query = _notices().where(has_news, may, free).with_for_update(of=triggers, skip_locked=True)
            found = [replace(notice, lease=lease) for notice in self._read(connection, query)]
            for notice in found:
                connection.execute(sa.update(triggers).where(t.id == notice.trigger).values(notifying_until=lease))
        return found

    def all(self) -> list[Notice]:
        """Every trigger, with what has gathered so far; nothing is taken."""
        with self._database.read() as connection:
            return self._read(connection, _notices().order_by(projects.c.name, workflows.c.name, triggers.c.name))

    def _read(self, connection: sa.Connection, query: sa.Select[Any]) -> list[Notice]:
        rows = connection.execute(query).mappings().all()
        admins = {project: self._admins(connection, project) for project in {row["project"] for row in rows}}
        return [Notice(**row, recipients=admins[row["project"]]) for row in rows]

    def confirm(self, notice: Notice) -> None:
        """It was sent: remove it, keep what has gathered since, and begin the embargo. Without effect if the lease is
        another instance's by now: that one sends it too."""
        with self._database.write() as connection:
            gathered = connection.scalar(sa.select(triggers.c.unreported).where(_leased(notice)).with_for_update())
            if gathered is not None:
                rest = _without(gathered, notice.gathered)
                sent = {"unreported": rest, "notified_at": self._database.micros(connection), "notifying_until": None}
                connection.execute(sa.update(triggers).where(_leased(notice)).values(sent))

    def release(self, notice: Notice) -> None:
        """It could not be sent: it may be leased again at once."""
        with self._database.write() as connection:
            connection.execute(sa.update(triggers).where(_leased(notice)).values(notifying_until=None))

    def _admins(self, connection: sa.Connection, project: str) -> tuple[str, ...]:
        """Owners and admins of the project, and members of it who are admins of the whole instance."""
        is_admin = members.c.role.in_(ADMINS) | (users.c.role == "admin")
        query = sa.select(users.c.email).join(members, members.c.user_id == users.c.id)
        query = query.where(members.c.project_id == project, is_admin).order_by(users.c.email)
        return tuple(connection.scalars(query))


def _notices() -> sa.Select[Any]:
    t, w, p = triggers.c, workflows.c, projects.c
    return (
        sa.select(
            t.id.label("trigger"),
            t.name.label("trigger_name"),
            w.id.label("workflow"),
            w.name.label("workflow_name"),
            p.id.label("project"),
            p.name.label("project_name"),
            p.settings,
            t.unreported.label("gathered"),
            t.notified_at.label("before"),
        )
        .join(workflows, w.id == t.workflow_id)
        .join(projects, p.id == w.project_id)
    )


def _leased(notice: Notice) -> sa.ColumnElement[bool]:
    return (triggers.c.id == notice.trigger) & (triggers.c.notifying_until == notice.lease)


def _without(gathered: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """What has gathered after what was sent."""
    count = gathered.get("count", 0) - sent["count"]
    if count <= 0:
        return {}
    messages = gathered["messages"][len(sent["messages"]) :]
    return {"count": count, "since": sent["until"], "until": gathered["until"], "messages": messages}
