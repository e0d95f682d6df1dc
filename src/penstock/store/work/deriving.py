"""What a change of runs makes of their work orders, for every statement that moves runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.store.database import Database
from penstock.store.workflow_tables import UNFINISHED, runs, work_orders

Derive = Callable[[str, Iterable[str]], str]
"""The state of a work order, from that of the run that changed and those of its other unfinished runs."""

_UNFINISHED: Final = sa.text(f"penstock_runs.{UNFINISHED}")


class Changed(NamedTuple):
    """A run that has just come into a state."""

    run: str
    work_order: str
    state: str


def among(database: Database, column: sa.Column[Any], ids: Sequence[str]) -> sa.ColumnElement[bool]:
    """Whether the column's id is one of these; on PostgreSQL the statement is the same for any number of them."""
    if database.is_sqlite:
        return column.in_(ids)
    return column == sa.any_(sa.cast(list(ids), postgresql.ARRAY(postgresql.UUID(as_uuid=False))))


def derive_orders(
    database: Database, connection: sa.Connection, derive: Derive, changed: Collection[Changed], at: int
) -> None:
    """Bring the work orders of these runs to the state that follows; the runs themselves are written already."""
    if not changed:
        return
    orders = list({change.work_order for change in changed})
    unfinished: dict[str, dict[str, str]] = defaultdict(dict)
    found = sa.select(runs.c.work_order_id, runs.c.id, runs.c.state)
    for row in connection.execute(found.where(among(database, runs.c.work_order_id, orders), _UNFINISHED)):
        unfinished[row.work_order_id][row.id] = row.state
    wanted: dict[str, str] = {}
    for change in changed:
        others = [state for run, state in unfinished[change.work_order].items() if run != change.run]
        wanted[change.work_order] = derive(change.state, others)
    by_state: dict[str, list[str]] = defaultdict(list)
    for order in sorted(wanted):
        by_state[wanted[order]].append(order)
    for state, ids in by_state.items():
        statement = sa.update(work_orders).where(among(database, work_orders.c.id, ids))
        connection.execute(statement.values(state=state, last_activity=at, updated_at=at))
