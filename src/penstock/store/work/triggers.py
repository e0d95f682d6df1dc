"""Triggers, and what of them has changed."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from penstock.core.ids import is_id
from penstock.store.database import Database
from penstock.store.people import Changed
from penstock.store.work.model import NotThere, TriggerChange, TriggerRow
from penstock.store.workflow_tables import triggers, workflows

_c = triggers.c
_MATTERS: Final = ("type", "enabled", "kafka_configuration", "options")
"""What a running consumer was made from; a new snapshot is found by the next chunk that is taken in."""
_GIVEN: Final = ("name", "comment", *_MATTERS)

# Within the class, `list` is a method.
TriggerRows = list[TriggerRow]
Changes = list[TriggerChange]


class Triggers:
    """The repository of triggers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stamp(self) -> tuple[Any, ...]:
        """Another one whenever `changes` may give something else."""
        query = sa.select(sa.func.count(), sa.func.sum(_c.revision), sa.func.max(_c.updated_at))
        with self._database.read() as connection:
            found = connection.execute(query.where(_c.type == "kafka", _c.deleted_at.is_(None))).one()
        return tuple(found)

    def changes(self) -> Changes:
        """Every live Kafka trigger, as little of it as shows whether something must be done."""
        query = sa.select(_c.id, _c.revision, _c.enabled, _c.workflow_id, _c.name).where(
            _c.type == "kafka", _c.deleted_at.is_(None)
        )
        with self._database.read() as connection:
            return [TriggerChange(*row) for row in connection.execute(query)]

    def list(
        self, *, workflow_id: str | None = None, project_id: str | None = None, include_deleted: bool = False
    ) -> TriggerRows:
        """By workflow and name."""
        query = sa.select(triggers).order_by(_c.workflow_id, _c.name, _c.id)
        if workflow_id is not None:
            query = query.where(_c.workflow_id == workflow_id)
        if project_id is not None:
            of_project = sa.select(workflows.c.id).where(workflows.c.project_id == project_id)
            query = query.where(_c.workflow_id.in_(of_project))
        if not include_deleted:
            query = query.where(_c.deleted_at.is_(None))
        with self._database.read() as connection:
            return [TriggerRow(**row) for row in connection.execute(query).mappings()]

    def get(self, trigger_id: str) -> TriggerRow | None:
        """Deleted ones too."""
        if not is_id(trigger_id):
            return None
        with self._database.read() as connection:
            return _one(connection, _c.id == trigger_id.lower())

    def save(self, trigger: TriggerRow, *, expected: int | None = None) -> TriggerRow:
        """Make the trigger, or change it; one of its workflow that has the name already keeps its id. `Changed` where
        it was not saved last at the `expected` time."""
        with self._database.write() as connection:
            mine = sa.select(workflows.c.id).where(workflows.c.id == trigger.workflow_id).with_for_update()
            if connection.scalar(mine) is None:
                raise NotThere("there is no such workflow", received=trigger.workflow_id)
            if expected is not None and (found := _one(connection, _c.id == trigger.id)) is not None:
                _check_unchanged(found, expected)
            return _saved(connection, save_trigger(connection, trigger, None, self._database.micros(connection)))

    def set_enabled(self, trigger_id: str, enabled: bool) -> TriggerRow:  # noqa: FBT001 - what the method is for
        """Switch a live trigger on or off."""
        with self._database.write() as connection:
            differs = (_c.id == trigger_id) & _c.deleted_at.is_(None) & (_c.enabled != enabled)
            now = self._database.micros(connection)
            values = {"enabled": enabled, "revision": _c.revision + 1, "updated_at": now}
            connection.execute(sa.update(triggers).where(differs).values(values))
            found = _one(connection, (_c.id == trigger_id) & _c.deleted_at.is_(None))
        if found is None:
            raise NotThere("there is no such trigger", received=trigger_id)
        return found

    def delete(self, trigger_id: str) -> bool:
        """Take it out of use; what it brought in stays. False where it was not in use."""
        with self._database.write() as connection:
            return delete_triggers(connection, _c.id == trigger_id, self._database.micros(connection)) > 0


def _check_unchanged(found: TriggerRow, expected: int) -> None:
    if found.updated_at != expected:
        raise Changed("the trigger was changed meanwhile", received=expected, hint="look at it again")


def save_trigger(connection: sa.Connection, trigger: TriggerRow, workflow_id: str | None, now: int) -> str:
    """Write it, and return the id that it has."""
    mine = workflow_id or trigger.workflow_id
    named = (_c.workflow_id == mine) & (_c.name == trigger.name) & _c.deleted_at.is_(None)
    found = _one(connection, named) or _one(connection, _c.id == trigger.id)
    given = {name: getattr(trigger, name) for name in _GIVEN}
    if found is None:
        new = {"id": trigger.id, "workflow_id": mine, "revision": 1, "inserted_at": now, "updated_at": now}
        connection.execute(sa.insert(triggers), given | new)
        return trigger.id
    if (group := found.kafka_configuration.get("group_id")) is not None:
        # Whoever saves first chooses it; two instances that apply one file at the same moment agree this way.
        given["kafka_configuration"] = given["kafka_configuration"] | {"group_id": group}
    changed = {name: value for name, value in given.items() if getattr(found, name) != value}
    if found.deleted_at is not None or found.workflow_id != mine:
        changed |= {"deleted_at": None, "workflow_id": mine}
    if changed:
        matters = found.deleted_at is not None or not changed.keys().isdisjoint(_MATTERS)
        counted = {"revision": _c.revision + 1} if matters else {}
        connection.execute(sa.update(triggers).where(_c.id == found.id).values(changed | counted | {"updated_at": now}))
    return found.id


def delete_triggers(connection: sa.Connection, which: sa.ColumnElement[bool], now: int) -> int:
    """Disable and delete; how many there were."""
    values = {"enabled": False, "deleted_at": now, "updated_at": now, "revision": _c.revision + 1}
    return connection.execute(sa.update(triggers).where(which, _c.deleted_at.is_(None)).values(values)).rowcount


def _one(connection: sa.Connection, which: sa.ColumnElement[bool]) -> TriggerRow | None:
    found = connection.execute(sa.select(triggers).where(which)).mappings().one_or_none()
    return TriggerRow(**found) if found else None


def _saved(connection: sa.Connection, trigger_id: str) -> TriggerRow:
    found = _one(connection, _c.id == trigger_id)
    assert found is not None  # noqa: S101 - it was just written
    return found
