"""What people do to work orders: make one by hand, run one again, take back what has not begun."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa

from penstock.core.ids import new_ids
from penstock.store.database import Database
from penstock.store.work.deriving import Changed, Derive, derive_orders
from penstock.store.work.model import NotThere
from penstock.store.work.pages import among_ids
from penstock.store.work.run_ids import following_ids
from penstock.store.work.states import ENDED, UNFINISHED
from penstock.store.workflow_tables import dataclips, runs, snapshots, steps, work_orders, workflows

IMMEDIATE: Final = 0
NORMAL: Final = 1
"""Priorities of runs: what a person waits for comes first."""

Why = Literal["missing", "deleted", "unfinished", "wiped", "no_step"]
"""Why a work order was not run again: it, its workflow, its end, its input or the step is not there."""

_o = work_orders.c
_OPEN: Final = ("available",)


class Retried(NamedTuple):
    """A work order that was asked to run again; either a run or the reason why there is none."""

    work_order_id: str
    run_id: str | None
    why: Why | None


class _Wanted(NamedTuple):
    """What a run should begin with, and at which step."""

    dataclip_id: str | None
    step: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A work order made by hand."""

    work_order_id: str
    run_id: str
    dataclip_id: str


class Orders:
    """The repository of what is asked of work orders."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        workflow_id: str,
        *,
        body: str | None = None,
        dataclip_id: str | None = None,
        name: str | None = None,
        step: str | None = None,
        by: str | None = None,
    ) -> Created:
        """A work order that no message asked for: with a body, as JSON, which may be given a name, or a dataclip."""
        with self._database.write() as connection:
            live = among_ids(self._database, workflows.c.id, [workflow_id]) & workflows.c.deleted_at.is_(None)
            found = connection.execute(sa.select(workflows).where(live)).one_or_none()
            if found is None or found.snapshot_id is None:
                raise NotThere("there is no such workflow", received=workflow_id)
            now = self._database.micros(connection)
            new_clip, order, run = new_ids(3)
            if dataclip_id is None:
                clip = {"id": new_clip, "project_id": found.project_id, "type": "saved_input", "name": name}
                connection.execute(sa.insert(dataclips), clip | {"body": body or "{}", "inserted_at": now})
            elif not _usable(self._database, connection, [dataclip_id], found.project_id):
                raise NotThere("there is no such dataclip, or it was wiped", received=dataclip_id)
            used = dataclip_id or new_clip
            of_flow = {"project_id": found.project_id, "workflow_id": found.id, "snapshot_id": found.snapshot_id}
            times = {"inserted_at": now, "updated_at": now}
            row = {"id": order, "dataclip_id": used, "state": "pending", "last_activity": now}
            connection.execute(sa.insert(work_orders), row | of_flow | times)
            wanted = {"id": run, "work_order_id": order, "dataclip_id": used, "starting_step": step, "created_by": by}
            by_hand = {"queue": "manual", "priority": IMMEDIATE, "state": "available", "options": {}}
            connection.execute(sa.insert(runs), wanted | by_hand | of_flow | times)
        return Created(work_order_id=order, run_id=run, dataclip_id=used)

    def retry(self, work_order_ids: Sequence[str], *, step: str | None = None, by: str | None = None) -> list[Retried]:
        """Run work orders again, from the start or from a step."""
        with self._database.write() as connection:
            return retry_in(self._database, connection, work_order_ids, step=step, by=by, priority=IMMEDIATE)

    def retry_run(self, run_id: str, *, step: str | None = None, by: str | None = None) -> Retried:
        """Run a work order again as one of its runs was, or from a step with what that run gave it."""
        with self._database.write() as connection:
            mine = among_ids(self._database, runs.c.id, [run_id])
            found = connection.execute(sa.select(runs).where(mine)).one_or_none()
            if found is None:
                raise NotThere("there is no such run", received=run_id)
            clip = _inputs(connection, mine, step).get(found.work_order_id) if step else found.dataclip_id
            orders = _locked(self._database, connection, [found.work_order_id])
            wanted = {found.work_order_id: _Wanted(clip, step or found.starting_step)}
            return _retried(self._database, connection, orders, wanted, by=by, priority=IMMEDIATE)[0]

    def cancel(self, derive: Derive, work_order_ids: Sequence[str], *, in_flight: bool = False) -> list[str]:
        """Take back the runs of work orders that have not begun, or, `in_flight`, not ended; their ids."""
        with self._database.write() as connection:
            return cancel_in(self._database, connection, derive, work_order_ids, in_flight=in_flight)

    def cancel_runs(self, derive: Derive, run_ids: Sequence[str], *, in_flight: bool = False) -> list[str]:
        """The same for single runs."""
        with self._database.write() as connection:
            mine = among_ids(self._database, runs.c.id, run_ids)
            return _cancelled(self._database, connection, derive, mine, in_flight=in_flight)


def retry_in(
    database: Database,
    connection: sa.Connection,
    work_order_ids: Sequence[str],
    *,
    step: str | None = None,
    by: str | None = None,
    priority: int = NORMAL,
) -> list[Retried]:
    """Run work orders again, each once, within a transaction: with what they came with or, given a step, with what it
    was given in their last run that came to it."""
    ids = [one.lower() for one in dict.fromkeys(work_order_ids)]
    orders = _locked(database, connection, ids)
    mine = among_ids(database, runs.c.work_order_id, list(orders))
    inputs = _inputs(connection, mine, step) if step else {one: row.dataclip_id for one, row in orders.items()}
    wanted = {one: _Wanted(inputs.get(one), step) for one in ids}
    return _retried(database, connection, orders, wanted, by=by, priority=priority)


def _retried(
    database: Database,
    connection: sa.Connection,
    orders: Mapping[str, Any],
    wanted: Mapping[str, _Wanted],
    *,
    by: str | None,
    priority: int,
) -> list[Retried]:
    flows = _flows(connection, {row.workflow_id for row in orders.values()})
    keys = _order_keys(database, connection, list(orders))
    usable = _usable(database, connection, [want.dataclip_id for want in wanted.values() if want.dataclip_id])
    now = database.micros(connection)
    answers: list[Retried] = []
    made: list[dict[str, Any]] = []
    ids = _run_ids(connection, orders, keys, list(wanted))
    for one, want in wanted.items():
        run_id = ids[one]
        order: Any = orders.get(one)
        flow: Any = flows.get(order.workflow_id) if order else None
        why = _refusal(order, flow, want, usable)
        answers.append(Retried(one, None if why else run_id, why))
        if why is None:
            row: dict[str, Any] = {"id": run_id, "work_order_id": one}
            row |= {"dataclip_id": want.dataclip_id, "starting_step": want.step}
            row |= {"project_id": order.project_id, "workflow_id": order.workflow_id, "created_by": by}
            row |= {"snapshot_id": flow.snapshot_id, "starting_trigger_id": None if want.step else order.trigger_id}
            row |= {"order_key": keys.get(one), "priority": priority, "queue": "default", "state": "available"}
            made.append(row | {"options": {}, "inserted_at": now, "updated_at": now})
    if made:
        connection.execute(sa.insert(runs), made)
        again = among_ids(database, _o.id, [row["work_order_id"] for row in made])
        # Nothing else of them is unfinished, so that the new run speaks for the work order.
        values = {"state": "pending", "last_activity": now, "updated_at": now}
        connection.execute(sa.update(work_orders).where(again).values(values))
    return answers


def cancel_in(
    database: Database,
    connection: sa.Connection,
    derive: Derive,
    work_order_ids: Sequence[str],
    *,
    in_flight: bool = False,
) -> list[str]:
    """Take back the runs of work orders, within a transaction."""
    mine = among_ids(database, runs.c.work_order_id, work_order_ids)
    return _cancelled(database, connection, derive, mine, in_flight=in_flight)


def _cancelled(
    database: Database, connection: sa.Connection, derive: Derive, mine: sa.ColumnElement[bool], *, in_flight: bool
) -> list[str]:
    now = database.micros(connection)
    statement = sa.update(runs).where(mine, runs.c.state.in_(UNFINISHED if in_flight else _OPEN))
    values = {"state": "cancelled", "finished_at": now, "updated_at": now}
    gone = connection.execute(statement.values(values).returning(runs.c.id, runs.c.work_order_id)).all()
    derive_orders(database, connection, derive, [Changed(row.id, row.work_order_id, "cancelled") for row in gone], now)
    return sorted(row.id for row in gone)


def _refusal(order: Any, flow: Any, want: _Wanted, usable: set[str]) -> Why | None:
    if order is None:
        return "missing"
    if flow is None:
        return "deleted"
    if order.state not in ENDED:
        return "unfinished"
    known = {one.get("name") for one in flow.definition.get("steps", [])}
    if want.step is not None and (want.step not in known or want.dataclip_id is None):
        return "no_step"
    return None if want.dataclip_id in usable else "wiped"


def _locked(database: Database, connection: sa.Connection, ids: Sequence[str]) -> dict[str, Any]:
    """Work orders, to which nobody else does anything meanwhile."""
    mine = sa.select(work_orders).where(among_ids(database, _o.id, ids))
    return {row.id: row for row in connection.execute(mine.order_by(_o.id).with_for_update())}


def _flows(connection: sa.Connection, ids: set[str]) -> dict[str, Any]:
    """Live workflows with what runs of them are made from."""
    live = workflows.c.id.in_(ids) & workflows.c.deleted_at.is_(None)
    query = sa.select(workflows.c.id, workflows.c.snapshot_id, snapshots.c.definition).join(
        snapshots, snapshots.c.id == workflows.c.snapshot_id
    )
    return {row.id: row for row in connection.execute(query.where(live))}


def _order_keys(database: Database, connection: sa.Connection, ids: Sequence[str]) -> dict[str, str | None]:
    """The order key that the runs of each work order have."""
    mine = among_ids(database, runs.c.work_order_id, ids)
    query = sa.select(runs.c.work_order_id, runs.c.order_key).where(mine).order_by(runs.c.id)
    return {row.work_order_id: row.order_key for row in connection.execute(query)}


def _run_ids(
    connection: sa.Connection, orders: Mapping[str, Any], keys: Mapping[str, str | None], wanted: Sequence[str]
) -> dict[str, str]:
    """An id for a run of each work order; behind all that wait, where there is an order to keep."""
    ids = dict(zip(wanted, new_ids(len(wanted)), strict=True))
    ordered: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in wanted:
        if one in orders and keys.get(one) is not None:
            ordered[orders[one].project_id, orders[one].workflow_id].append(one)
    for (project, workflow), some in ordered.items():
        ids |= zip(some, following_ids(connection, project, workflow, len(some)), strict=True)
    return ids


def _inputs(connection: sa.Connection, mine: sa.ColumnElement[bool], step: str) -> dict[str, str | None]:
    """What the step was given in the last of these runs that came to it, by work order."""
    query = sa.select(runs.c.work_order_id, steps.c.input_dataclip_id).join(steps, steps.c.run_id == runs.c.id)
    found = connection.execute(query.where(mine, steps.c.name == step).order_by(runs.c.id, steps.c.id))
    return {row.work_order_id: row.input_dataclip_id for row in found}


def _usable(
    database: Database, connection: sa.Connection, ids: Sequence[str], project_id: str | None = None
) -> set[str]:
    """Dataclips, of a project if that is given, that are there and not wiped."""
    mine = among_ids(database, dataclips.c.id, ids) & dataclips.c.wiped_at.is_(None)
    if project_id is not None:
        mine &= dataclips.c.project_id == project_id
    return set(connection.scalars(sa.select(dataclips.c.id).where(mine)))
