"""People: their roles, their memberships of projects, and what they log in by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from penstock.core.errors import PenstockError, Terminal
from penstock.core.ids import new_id
from penstock.store.access_tables import credentials, sessions
from penstock.store.database import Database
from penstock.store.workflow_tables import members, projects, users


class Taken(PenstockError, Terminal):
    """The name is another one's already."""

    code = "taken"


class Changed(PenstockError, Terminal):
    """Somebody else has changed it since it was read."""

    code = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """One person."""

    id: str
    email: str
    name: str | None = None
    role: str | None = None
    """Of the whole instance; None: as the memberships say."""
    projects: dict[str, str] = field(default_factory=dict)
    """Role by project id."""
    password: str | None = None
    """Its hash."""
    subject: str | None = None
    disabled_at: int | None = None
    revision: int = 0

    @property
    def has_password(self) -> bool:
        return self.password is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRow:
    id: str
    name: str


class People:
    """The repository of people. Times are epoch milliseconds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        email: str,
        *,
        name: str | None = None,
        role: str | None = None,
        password: str | None = None,
        subject: str | None = None,
        projects: Mapping[str, str] | None = None,
    ) -> PersonRow:
        """`password` is a hash. `Taken` where the address is another one's."""
        user_id = new_id()
        with self._database.write() as connection:
            if connection.scalar(sa.select(users.c.id).where(users.c.email == email)) is not None:
                raise Taken("there is a user with this address", received=email)
            now = self._database.now(connection)
            connection.execute(
                sa.insert(users), {"id": user_id, "email": email, "name": name, "role": role, "inserted_at": now * 1000}
            )
            values = {"user_id": user_id, "password": password, "subject": subject, "revision": 1, "updated_at": now}
            connection.execute(sa.insert(credentials), values)
            _put_members(connection, user_id, projects or {})
            return self._read(connection, users.c.id == user_id)[0]

    def get(self, user_id: str) -> PersonRow | None:
        return self._one(users.c.id == user_id)

    def by_email(self, email: str) -> PersonRow | None:
        return self._one(users.c.email == email)

    def by_subject(self, subject: str) -> PersonRow | None:
        """Who logs in at an OpenID provider as this."""
        return self._one(credentials.c.subject == subject)

    def all(self) -> list[PersonRow]:
        """By address."""
        with self._database.read() as connection:
            return self._read(connection)

    def change(
        self, user_id: str, revision: int | None, *, projects: Mapping[str, str] | None = None, **values: Any
    ) -> PersonRow:
        """Set `name`, `role`, `password` (a hash), `subject` or `disabled_at`, and memberships where they are given.

        `Changed` where the user's revision is not this one (None: whatever it is). A user that is disabled or gets
        another password is logged out."""
        own = {key: value for key, value in values.items() if key in ("name", "role")}
        login = {key: value for key, value in values.items() if key in ("password", "subject", "disabled_at")}
        with self._database.write() as connection:
            now = self._database.now(connection)
            self._bump(connection, user_id, revision, login | {"updated_at": now})
            if own:
                connection.execute(sa.update(users).where(users.c.id == user_id).values(own))
            if projects is not None:
                _put_members(connection, user_id, projects)
            if "password" in login or login.get("disabled_at"):
                connection.execute(sa.delete(sessions).where(sessions.c.user_id == user_id))
            return self._read(connection, users.c.id == user_id)[0]

    def delete(self, user_id: str, revision: int | None) -> None:
        """With sessions, tokens and memberships."""
        with self._database.write() as connection:
            self._bump(connection, user_id, revision, {})
            connection.execute(sa.delete(users).where(users.c.id == user_id))

    def projects(self) -> list[ProjectRow]:
        """By name."""
        query = sa.select(projects.c.id, projects.c.name).order_by(projects.c.name)
        with self._database.read() as connection:
            return [ProjectRow(**row) for row in connection.execute(query).mappings()]

    def _bump(self, connection: sa.Connection, user_id: str, revision: int | None, values: dict[str, Any]) -> None:
        c = credentials.c
        # Users that an import made have no row here yet.
        if connection.scalar(sa.select(c.user_id).where(c.user_id == user_id)) is None:
            first = {"user_id": user_id, "revision": 0, "updated_at": self._database.now(connection)}
            connection.execute(sa.insert(credentials), first)
        update = sa.update(credentials).where(c.user_id == user_id)
        if revision is not None:
            update = update.where(c.revision == revision)
        if not connection.execute(update.values(**values, revision=c.revision + 1)).rowcount:
            raise Changed("the user was changed by somebody else meanwhile", hint="look at it again")

    def _one(self, condition: sa.ColumnElement[bool]) -> PersonRow | None:
        with self._database.read() as connection:
            found = self._read(connection, condition)
        return found[0] if found else None

    def _read(self, connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[PersonRow]:
        own = (users.c.id, users.c.email, users.c.name, users.c.role)
        c = credentials.c
        login = (c.password, c.subject, c.disabled_at, sa.func.coalesce(c.revision, 0).label("revision"))
        query = sa.select(*own, *login).outerjoin(credentials, c.user_id == users.c.id).where(*conditions)
        found = connection.execute(query.order_by(users.c.email)).mappings().all()
        roles = _memberships(connection, [row["id"] for row in found])
        return [PersonRow(**row, projects=roles.get(row["id"], {})) for row in found]


def _memberships(connection: sa.Connection, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    query = sa.select(members)
    if len(ids) == 1:
        query = query.where(members.c.user_id == ids[0])
    roles: dict[str, dict[str, str]] = {}
    for row in connection.execute(query):
        roles.setdefault(row.user_id, {})[row.project_id] = row.role
    return roles


def _put_members(connection: sa.Connection, user_id: str, roles: Mapping[str, str]) -> None:
    connection.execute(sa.delete(members).where(members.c.user_id == user_id))
    for project, role in roles.items():
        connection.execute(sa.insert(members), {"project_id": project, "user_id": user_id, "role": role})
