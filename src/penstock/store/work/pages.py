"""Queries for pages of work orders. Their indexes begin with workflow and state and go on with what lists are ordered
by: a page is put together from the first few rows of each workflow and state that may be in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.core.ids import first_id, is_id
from penstock.store.database import Database
from penstock.store.letters.conditions import among
from penstock.store.work.history_model import Order, WorkOrderCursor, WorkOrderFilter
from penstock.store.work.states import WORK_ORDER_STATES
from penstock.store.workflow_tables import triggers, work_orders, workflows

Condition = sa.ColumnElement[bool]

_c = work_orders.c
_AT_ONCE: Final = 100
"""SQLite takes no more than 500 parts of a union."""
_NAMES: Final = ("project_id", "workflow_id", "trigger_id")


def has_malformed_ids(which: WorkOrderFilter) -> bool:
    """Nothing has such an id, and PostgreSQL would not even compare it."""
    given = [getattr(which, name) for name in _NAMES]
    return any(value is not None and not is_id(value) for value in given) or (
        bool(which.ids) and not any(map(is_id, which.ids))
    )


def received_conditions(which: WorkOrderFilter, column: sa.ColumnElement[Any] = _c.id) -> list[Condition]:
    """On the ids of work orders, which tell the time."""
    found: list[Condition] = []
    if which.received_after is not None:
        found.append(column >= first_id(which.received_after))
    if which.received_before is not None:
        found.append(column < first_id(which.received_before))
    return found


def other_conditions(which: WorkOrderFilter) -> list[Condition]:
    """The last activity and the trigger: with the id, what the indexes know besides workflow and state."""
    found: list[Condition] = []
    if which.active_after is not None:
        found.append(_c.last_activity >= which.active_after)
    if which.active_before is not None:
        found.append(_c.last_activity < which.active_before)
    if which.trigger_id is not None:
        found.append(_c.trigger_id == which.trigger_id)
    return found


def implied_conditions(which: WorkOrderFilter, order: Order) -> list[Condition]:
    """Where to begin or end in the index: nothing happens to a work order before it is received, so that each time says
    something about the other."""
    if order == "created":
        return [_c.id < first_id(which.active_before)] if which.active_before is not None else []
    return [_c.last_activity >= which.received_after] if which.received_after is not None else []


def unindexed(condition: Condition) -> Condition:
    """The same, for rows that another condition finds: planners take the index that this one alone would need, and read
    it once for every workflow and state."""
    return condition.is_not(sa.false())


def conditions(database: Database, which: WorkOrderFilter) -> list[Condition]:
    """All but the term."""
    found = [*received_conditions(which), *other_conditions(which)]
    if which.project_id is not None or which.workflow_id is not None:
        # The indexes know workflows only.
        found.append(_c.workflow_id.in_(_workflows(which)))
    if which.states:
        found.append(_c.state.in_(which.states))
    if which.ids:
        found.append(among_ids(database, _c.id, which.ids))
    return found


def among_ids(database: Database, column: sa.ColumnElement[Any], ids: Sequence[str]) -> Condition:
    """One parameter, however many ids; malformed ones are left out."""
    known = [one.lower() for one in ids if is_id(one)]
    if database.is_sqlite:
        return among(database, column, known)
    return column == sa.any_(sa.cast(known, sa.ARRAY(column.type)))


def behind(order: Order, after: WorkOrderCursor | None, *, oldest_first: bool) -> list[Condition]:
    if after is None:
        return []
    if order == "created":
        return [_c.id > after.id if oldest_first else _c.id < after.id]
    place, given = sa.tuple_(_c.last_activity, _c.id), sa.tuple_(after.at, sa.literal(after.id, _c.id.type))
    return [place > given if oldest_first else place < given]


def ordering(columns: Any, order: Order, *, oldest_first: bool) -> list[sa.ColumnElement[Any]]:
    names = ("id",) if order == "created" else ("last_activity", "id")
    return [columns[name].asc() if oldest_first else columns[name].desc() for name in names]


def page(
    database: Database,
    connection: sa.Connection,
    which: WorkOrderFilter,
    *,
    order: Order,
    limit: int,
    after: WorkOrderCursor | None,
    oldest_first: bool,
) -> list[str]:
    """Ids of the first work orders of a list, whatever its term."""
    later = [*implied_conditions(which, order), *behind(order, after, oldest_first=oldest_first)]
    chosen = which.project_id or which.workflow_id or which.trigger_id or which.states
    if which.ids or (order == "created" and not chosen):
        query = sa.select(_c.id).where(*conditions(database, which), *later)
        query = query.order_by(*ordering(_c, order, oldest_first=oldest_first)).limit(limit)
        return list(connection.scalars(query))
    received = received_conditions(which)
    if order == "activity":
        received = list(map(unindexed, received))
    some = sa.select(_c.id, _c.last_activity).where(*received, *other_conditions(which), *later)
    some = some.order_by(*ordering(_c, order, oldest_first=oldest_first)).limit(limit)
    states = which.states or WORK_ORDER_STATES
    if not database.is_sqlite:
        laterals = _laterals(which, some, states)
        query = laterals.order_by(*ordering(laterals.selected_columns, order, oldest_first=oldest_first)).limit(limit)
        return [row.id for row in connection.execute(query)]
    found = _by_unions(connection, which, some, states)
    found.sort(key=(lambda row: row.id) if order == "created" else tuple, reverse=not oldest_first)
    return [row.id for row in found[:limit]]


def _laterals(which: WorkOrderFilter, some: sa.Select[Any], states: Sequence[str]) -> sa.Select[Any]:
    flows = _workflows(which).subquery("flows")
    state = sa.func.unnest(sa.cast(list(states), sa.ARRAY(sa.Text))).table_valued("name").render_derived("state")
    mine = some.where(_c.workflow_id == flows.c.id, _c.state == state.c.name).lateral("mine")
    return sa.select(mine.c.last_activity, mine.c.id).select_from(flows.join(state, sa.true()).join(mine, sa.true()))


def _by_unions(
    connection: sa.Connection, which: WorkOrderFilter, some: sa.Select[Any], states: Sequence[str]
) -> list[Any]:
    flows = list(connection.scalars(_workflows(which)))
    pairs = [(flow, state) for flow in flows for state in states]
    found: list[Any] = []
    for start in range(0, len(pairs), _AT_ONCE):
        parts = [
            sa.select(sa.column("last_activity", sa.BigInteger()), sa.column("id", sa.Text())).select_from(
                some.where(_c.workflow_id == flow, _c.state == state).subquery()
            )
            for flow, state in pairs[start : start + _AT_ONCE]
        ]
        found += connection.execute(sa.union_all(*parts))
    return found


def _workflows(which: WorkOrderFilter) -> sa.Select[Any]:
    query = sa.select(workflows.c.id)
    if which.project_id is not None:
        query = query.where(workflows.c.project_id == which.project_id)
    if which.workflow_id is not None:
        query = query.where(workflows.c.id == which.workflow_id)
    if which.trigger_id is not None:
        query = query.where(
            workflows.c.id.in_(sa.select(triggers.c.workflow_id).where(triggers.c.id == which.trigger_id))
        )
    return query
