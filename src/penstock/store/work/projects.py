"""Projects, and who works in them."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from penstock.core.ids import is_id, new_id
from penstock.store.database import Database
from penstock.store.upsert import insert, upsert
from penstock.store.work.model import MemberRow, NotThere, ProjectRow, UserRow
from penstock.store.workflow_tables import members, projects, secrets, users

_c = projects.c
_FIXED: Final = ("id", "inserted_at", "updated_at")
_SETTABLE: Final = frozenset(ProjectRow.__slots__) - {*_FIXED}

# Within the classes, `list` is a method.
ProjectRows = list[ProjectRow]
MemberRows = list[MemberRow]
UserRows = list[UserRow]


class Projects:
    """The repository of projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, project_id: str, name: str, **fields: Any) -> ProjectRow:
        """Make the project, or change it: of one that is there, by its id or its name, only the given fields. Its id
        stays what it is."""
        if unknown := set(fields) - _SETTABLE:
            raise TypeError(f"a project has no {', '.join(sorted(unknown))}")
        with self._database.write() as connection:
            now = self._database.micros(connection)
            new = {"id": project_id, "name": name, "inserted_at": now, "updated_at": now}
            made = connection.execute(insert(self._database, projects).values(new).on_conflict_do_nothing()).rowcount
            found = self._row(connection, _c.id == project_id) or self._row(connection, _c.name == name)
            assert found is not None  # noqa: S101 - it was inserted, or stood in the way
            if made or found.name != name:
                _forget_secrets(connection, name)
            changes = {"name": name, **fields}
            if any(getattr(found, key) != value for key, value in changes.items()):
                changed = sa.update(projects).where(_c.id == found.id).values(updated_at=now, **changes)
                connection.execute(changed)
            saved = self._row(connection, _c.id == found.id)
            assert saved is not None  # noqa: S101 - see above
            return saved

    def get(self, name_or_id: str) -> ProjectRow | None:
        """By its name, or else its id."""
        with self._database.read() as connection:
            found = self._row(connection, _c.name == name_or_id)
            if found is None and is_id(name_or_id):
                found = self._row(connection, _c.id == name_or_id.lower())
            return found

    def list(self) -> ProjectRows:
        """By name."""
        with self._database.read() as connection:
            found = connection.execute(sa.select(projects).order_by(_c.name))
            return [ProjectRow(**row) for row in found.mappings()]

    def _row(self, connection: sa.Connection, which: sa.ColumnElement[bool]) -> ProjectRow | None:
        found = connection.execute(sa.select(projects).where(which)).mappings().one_or_none()
        return ProjectRow(**found) if found else None


def _forget_secrets(connection: sa.Connection, project: str) -> None:
    """Secrets belong to the name of a project: those that are kept when a project takes the name were another one's."""
    names = connection.scalars(
        sa.select(secrets.c.name).where(secrets.c.name.startswith(f"{project}/", autoescape=True))
    )
    theirs = [name for name in names if name.rpartition("/")[0] == project]
    connection.execute(sa.delete(secrets).where(secrets.c.name.in_(theirs)))


class Users:
    """People, by their address, and their roles in projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, email: str, *, name: str | None = None, role: str | None = None) -> UserRow:
        """Make the user with this address, or change name and role."""
        with self._database.write() as connection:
            now = self._database.micros(connection)
            new = {"id": new_id(), "email": email, "name": name, "role": role, "inserted_at": now}
            statement = insert(self._database, users).values(new)
            changed = {"name": statement.excluded.name, "role": statement.excluded.role}
            connection.execute(statement.on_conflict_do_update(index_elements=["email"], set_=changed))
            found = connection.execute(sa.select(users).where(users.c.email == email)).mappings().one()
            return UserRow(**found)

    def list(self) -> UserRows:
        """By address."""
        with self._database.read() as connection:
            return [UserRow(**row) for row in connection.execute(sa.select(users).order_by(users.c.email)).mappings()]

    def delete(self, email: str) -> bool:
        """True where there was one; memberships go along."""
        with self._database.write() as connection:
            found = connection.scalar(sa.select(users.c.id).where(users.c.email == email))
            if found is None:
                return False
            connection.execute(sa.delete(members).where(members.c.user_id == found))
            connection.execute(sa.delete(users).where(users.c.id == found))
            return True

    def set_member(self, project_id: str, email: str, role: str | None) -> None:
        """Give a user a role in a project; None: no more part of it."""
        with self._database.write() as connection:
            found = connection.scalar(sa.select(users.c.id).where(users.c.email == email))
            if found is None:
                raise NotThere("there is no user with this address", received=email)
            if role is None:
                mine = (members.c.project_id == project_id) & (members.c.user_id == found)
                connection.execute(sa.delete(members).where(mine))
            else:
                row = {"project_id": project_id, "user_id": found, "role": role}
                connection.execute(upsert(self._database, members), row)

    def members(self, project_id: str) -> MemberRows:
        """By address."""
        query = sa.select(
            *(members, users.c.email, users.c.name, users.c.role.label("instance_role")),
        ).join(users, users.c.id == members.c.user_id)
        with self._database.read() as connection:
            found = connection.execute(query.where(members.c.project_id == project_id).order_by(users.c.email))
            return [MemberRow(**row) for row in found.mappings()]
