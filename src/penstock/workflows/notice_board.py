"""What is to be told to the admins of projects: taken from the store by one instance at a time, within the embargo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.workflow_tables import members, projects, triggers, users, workflows

ADMINS: Final = ("owner", "admin")


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


class NoticeBoard:
    """Reads and marks what has gathered."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, embargo: float) -> list[Notice]:
        """What may be told now; whoever has taken it tells it, or gives it back."""
        t = triggers.c
        has_news = sa.type_coerce(t.unreported, sa.Text()) != "{}"
        with self._database.read() as connection:
            if connection.scalar(sa.select(sa.func.count()).select_from(triggers).where(has_news)) == 0:
                return []
        with self._database.write() as connection:
            now = self._database.micros(connection)
            may = sa.or_(t.notified_at.is_(None), t.notified_at < now - int(embargo * 1_000_000))
            query = _notices().where(has_news, may).with_for_update(of=triggers, skip_locked=True)
            found = self._read(connection, query)
            for notice in found:
                told = sa.update(triggers).where(t.id == notice.trigger)
                connection.execute(told.values(unreported={}, notified_at=now))
        return found

    def all(self) -> list[Notice]:
        """Every trigger, with what has gathered so far; nothing is taken."""
        with self._database.read() as connection:
            return self._read(connection, _notices().order_by(projects.c.name, workflows.c.name, triggers.c.name))

    def _read(self, connection: sa.Connection, query: sa.Select[Any]) -> list[Notice]:
        rows = connection.execute(query).mappings().all()
        admins = {project: self._admins(connection, project) for project in {row["project"] for row in rows}}
        return [Notice(**row, recipients=admins[row["project"]]) for row in rows]

    def give_back(self, notice: Notice) -> None:
        """It could not be told: later, then."""
        t = triggers.c
        with self._database.write() as connection:
            since = connection.scalar(sa.select(t.unreported).where(t.id == notice.trigger).with_for_update())
            if since is not None:
                back = sa.update(triggers).where(t.id == notice.trigger)
                connection.execute(back.values(unreported=_merged(notice.gathered, since), notified_at=notice.before))

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


def _merged(first: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    if not then:
        return first
    return {
        "count": first["count"] + then["count"],
        "since": first["since"],
        "until": then["until"],
        "messages": [*first["messages"], *then["messages"]][:20],
    }
