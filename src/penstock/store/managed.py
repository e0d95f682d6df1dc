"""Pipelines that people keep in the store, instead of in files: their documents, and every version of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from penstock.store.access_tables import managed_pipelines, managed_versions
from penstock.store.database import Database
from penstock.store.people import Changed, Taken


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedRow:
    """One pipeline as it should run."""

    name: str
    project_id: str | None
    text: str
    """The document as it was written; secrets are references."""
    revision: int
    changed_by: str
    changed_at: int
    """Epoch milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedVersion:
    """One version of a document."""

    revision: int
    text: str
    changed_by: str
    changed_at: int


class ManagedPipelines:
    """The repository of pipelines kept in the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[ManagedRow]:
        """By name."""
        with self._database.read() as connection:
            return _read(connection, managed_pipelines.c.deleted_at.is_(None))

    def get(self, name: str) -> ManagedRow | None:
        with self._database.read() as connection:
            found = _read(connection, managed_pipelines.c.name == name, managed_pipelines.c.deleted_at.is_(None))
        return found[0] if found else None

    def projects(self) -> dict[str, str]:
        """Ids of projects by the names of their pipelines, deleted ones included: what is left of those is still
        nobody else's."""
        c = managed_pipelines.c
        with self._database.read() as connection:
            found = connection.execute(sa.select(c.name, c.project_id).where(c.project_id.is_not(None)))
            return {row.name: row.project_id for row in found}

    def was_deleted(self, name: str) -> bool:
        """Whether it was kept once, and is no longer."""
        c = managed_pipelines.c
        with self._database.read() as connection:
            query = sa.select(c.name).where(c.name == name, c.deleted_at.is_not(None))
            return connection.execute(query).first() is not None

    def create(self, name: str, text: str, *, by: str, project_id: str | None = None) -> ManagedRow:
        """`Taken` where there is one of this name. Revisions go on where one of this name was deleted."""
        c = managed_pipelines.c
        with self._database.write() as connection:
            known = connection.execute(sa.select(c.revision, c.deleted_at).where(c.name == name)).one_or_none()
            if known is not None and known.deleted_at is None:
                raise Taken("there is a pipeline of this name", received=name, hint="replace it, or name it otherwise")
            values: dict[str, Any] = {"project_id": project_id, "text": text, "changed_by": by, "deleted_at": None}
            values |= {"changed_at": self._database.now(connection), "revision": (known.revision if known else 0) + 1}
            if known is None:
                connection.execute(sa.insert(managed_pipelines), values | {"name": name})
            else:
                connection.execute(sa.update(managed_pipelines).where(c.name == name).values(values))
            return _kept(connection, name)

    def replace(self, name: str, text: str, *, revision: int | None, by: str) -> ManagedRow:
        """`Changed` where its revision is not this one; None: whatever it is."""
        with self._database.write() as connection:
            values = {"text": text, "changed_by": by, "changed_at": self._database.now(connection)}
            _change(connection, name, revision, values)
            return _kept(connection, name)

    def delete(self, name: str, *, revision: int | None, by: str) -> None:
        """Its versions are kept."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            _change(connection, name, revision, {"changed_by": by, "changed_at": now, "deleted_at": now})

    def versions(self, name: str) -> list[ManagedVersion]:
        """Newest first."""
        c = managed_versions.c
        query = sa.select(c.revision, c.text, c.changed_by, c.changed_at).where(c.pipeline == name)
        with self._database.read() as connection:
            found = connection.execute(query.order_by(c.revision.desc())).mappings()
            return [ManagedVersion(**row) for row in found]


def _change(connection: sa.Connection, name: str, revision: int | None, values: dict[str, object]) -> None:
    c = managed_pipelines.c
    update = sa.update(managed_pipelines).where(c.name == name, c.deleted_at.is_(None))
    if revision is not None:
        update = update.where(c.revision == revision)
    if not connection.execute(update.values(**values, revision=c.revision + 1)).rowcount:
        raise Changed("the pipeline was changed by somebody else meanwhile", received=revision, hint="look at it again")


def _kept(connection: sa.Connection, name: str) -> ManagedRow:
    """The row, once its version is kept too."""
    [row] = _read(connection, managed_pipelines.c.name == name)
    version = {"pipeline": name, "revision": row.revision, "text": row.text}
    connection.execute(
        sa.insert(managed_versions), version | {"changed_by": row.changed_by, "changed_at": row.changed_at}
    )
    return row


def _read(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[ManagedRow]:
    columns = [column for column in managed_pipelines.c if column.name != "deleted_at"]
    query = sa.select(*columns).where(*conditions).order_by(managed_pipelines.c.name)
    return [ManagedRow(**row) for row in connection.execute(query).mappings()]
