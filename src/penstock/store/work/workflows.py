"""Workflows, their snapshots, and the triggers that come with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from penstock.core.ids import is_id, new_id
from penstock.store.database import Database
from penstock.store.people import Changed
from penstock.store.upsert import insert
from penstock.store.work.model import NotThere, SnapshotRow, TriggerRow, WorkflowRow
from penstock.store.work.triggers import delete_triggers, save_trigger
from penstock.store.workflow_tables import projects, snapshots, triggers, workflows

_c = workflows.c

# Within the class, `list` is a method.
WorkflowRows = list[WorkflowRow]
SnapshotRows = list[SnapshotRow]


class Workflows:
    """The repository of workflows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def apply(
        self,
        workflow: WorkflowRow,
        definition: dict[str, Any],
        version: str,
        triggers_given: Sequence[TriggerRow] = (),
        *,
        delete_others: bool = True,
        without: str | None = None,
        expected: int | None = None,
    ) -> WorkflowRow:
        """Make the workflow and its triggers what is given, in one transaction.

        Those that are there by name keep their ids; `delete_others`: triggers that are not given go, else only the one
        with the id `without`. A trigger's `workflow_id` is filled in. `Changed` where the workflow was not saved last
        at the `expected` time."""
        with self._database.write() as connection:
            _turn(connection, workflow.project_id)
            found = _one(connection, _c.id == workflow.id) if expected is not None else None
            if found is not None and found.updated_at != expected:
                raise Changed("the workflow was changed meanwhile", received=expected, hint="look at it again")
            now = self._database.micros(connection)
            workflow_id = self._save(connection, workflow, now)
            snapshot_id = self._snapshot(connection, workflow_id, definition, version, now)
            connection.execute(sa.update(workflows).where(_c.id == workflow_id).values(snapshot_id=snapshot_id))
            kept = [save_trigger(connection, trigger, workflow_id, now) for trigger in triggers_given]
            gone = triggers.c.id.not_in(kept) if delete_others else triggers.c.id == without
            delete_triggers(connection, (triggers.c.workflow_id == workflow_id) & gone, now)
            found = _one(connection, _c.id == workflow_id)
            assert found is not None  # noqa: S101 - it was just written
            return found

    def get(self, project_id: str, name: str) -> WorkflowRow | None:
        """The live one of that name."""
        live = (_c.project_id == project_id) & (_c.name == name) & _c.deleted_at.is_(None)
        with self._database.read() as connection:
            return _one(connection, live)

    def by_id(self, workflow_id: str) -> WorkflowRow | None:
        """Deleted ones too: history tells of them."""
        if not is_id(workflow_id):
            return None
        with self._database.read() as connection:
            return _one(connection, _c.id == workflow_id.lower())

    def list(self, project_id: str | None = None, *, deleted_too: bool = False) -> WorkflowRows:
        """By name."""
        query = sa.select(workflows).order_by(_c.name, _c.id)
        if project_id is not None:
            query = query.where(_c.project_id == project_id)
        if not deleted_too:
            query = query.where(_c.deleted_at.is_(None))
        with self._database.read() as connection:
            return [WorkflowRow(**row) for row in connection.execute(query).mappings()]

    def delete(self, workflow_id: str) -> bool:
        """Take it out of use, its triggers too; its history stays. False where it was not in use."""
        with self._database.write() as connection:
            now = self._database.micros(connection)
            live = (_c.id == workflow_id) & _c.deleted_at.is_(None)
            gone = connection.execute(sa.update(workflows).where(live).values(deleted_at=now, updated_at=now))
            delete_triggers(connection, triggers.c.workflow_id == workflow_id, now)
            return bool(gone.rowcount)

    def snapshot(self, snapshot_id: str) -> SnapshotRow | None:
        query = sa.select(snapshots).where(snapshots.c.id == snapshot_id)
        with self._database.read() as connection:
            found = connection.execute(query).mappings().one_or_none()
        return SnapshotRow(**found) if found else None

    def snapshots(self, workflow_id: str) -> SnapshotRows:
        """All versions of a workflow, newest first."""
        query = sa.select(snapshots).where(snapshots.c.workflow_id == workflow_id).order_by(snapshots.c.id.desc())
        with self._database.read() as connection:
            return [SnapshotRow(**row) for row in connection.execute(query).mappings()]

    def _save(self, connection: sa.Connection, workflow: WorkflowRow, now: int) -> str:
        named = (_c.project_id == workflow.project_id) & (_c.name == workflow.name) & _c.deleted_at.is_(None)
        found = _one(connection, named) or _one(connection, _c.id == workflow.id)
        values = {"name": workflow.name, "origin": workflow.origin, "concurrency": workflow.concurrency}
        if found is None:
            new = {"id": workflow.id, "project_id": workflow.project_id, "inserted_at": now, "updated_at": now}
            connection.execute(sa.insert(workflows), new | values)
            return workflow.id
        changed = values | {"deleted_at": None, "updated_at": now}
        connection.execute(sa.update(workflows).where(_c.id == found.id).values(changed))
        return found.id

    def _snapshot(
        self, connection: sa.Connection, workflow_id: str, definition: dict[str, Any], version: str, now: int
    ) -> str:
        row = {"id": new_id(), "workflow_id": workflow_id, "version": version, "definition": definition}
        statement = insert(self._database, snapshots).values(row | {"inserted_at": now})
        connection.execute(statement.on_conflict_do_nothing(index_elements=["workflow_id", "version"]))
        same = (snapshots.c.workflow_id == workflow_id) & (snapshots.c.version == version)
        found: str = connection.execute(sa.select(snapshots.c.id).where(same)).scalar_one()
        return found


def _turn(connection: sa.Connection, project_id: str) -> None:
    """One at a time in each project: instances that start together apply the same file."""
    if connection.scalar(sa.select(projects.c.id).where(projects.c.id == project_id).with_for_update()) is None:
        raise NotThere("there is no such project", received=project_id, hint="save the project first")


def _one(connection: sa.Connection, which: sa.ColumnElement[bool]) -> WorkflowRow | None:
    found = connection.execute(sa.select(workflows).where(which)).mappings().one_or_none()
    return WorkflowRow(**found) if found else None
