"""Ids of new runs that have an order key. Runs of one key are executed in the order of their ids, which must therefore
not depend on the clock of the host that makes them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from penstock.core.clock import SYSTEM, Clock
from penstock.core.ids import ids_at, time_of
from penstock.store.workflow_tables import IN_FLIGHT, runs

_QUEUE: Final = "default"
"""The only queue of runs with an order key: those that messages and retries make."""
_PRIORITIES: Final = (0, 1)
_SERVER_MICROS: Final = sa.text("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint")


def following_ids(
    connection: sa.Connection, project: str, workflow: str, count: int, clock: Clock = SYSTEM
) -> list[str]:
    """Growing ids, greater than that of every unfinished run of the workflow.

    I4: a partition's messages are taken in one transaction after the other (its cursor is locked first), so that later
    messages get greater ids, whichever instance takes them in and whatever its clock says. Where no run is unfinished
    the ids say the time: the server's with PostgreSQL, `clock`'s with SQLite.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    query = sa.select(*_last_ids(project, workflow, is_sqlite=is_sqlite))
    found = connection.execute(query if is_sqlite else query.add_columns(_SERVER_MICROS)).one()
    now = clock.now_us() if is_sqlite else found[-1]
    last = [time_of(one) + 1 for one in (found if is_sqlite else found[:-1]) if one is not None]
    return ids_at(max(now, *last) if last else now, count)


def _last_ids(project: str, workflow: str, *, is_sqlite: bool) -> list[sa.ScalarSelect[str]]:
    """The greatest id of each part of an index: of those that wait by priority, and of those in flight."""
    c = runs.c
    # States are written out, not parameters: else the planner cannot know that a partial index will do.
    waiting = [
        sa.select(c.id).where(sa.text("state = 'available'"), _of_queue(workflow, priority, is_sqlite=is_sqlite))
        for priority in _PRIORITIES
    ]
    by_index = [c.queue.desc(), c.workflow_id.desc(), c.priority.desc(), c.id.desc()]
    in_flight = sa.select(c.id).where(sa.text(IN_FLIGHT), c.project_id == project, c.workflow_id == workflow)
    found = [*(query.order_by(*by_index) for query in waiting), in_flight.order_by(c.id.desc())]
    return [query.limit(1).scalar_subquery() for query in found]


def _of_queue(workflow: str, priority: int, *, is_sqlite: bool) -> sa.ColumnElement[bool]:
    c = runs.c
    if is_sqlite:
        return sa.and_(c.queue == _QUEUE, c.workflow_id == workflow, c.priority == priority)
    # Equal, but so that PostgreSQL knows of no constant column: else it may walk the primary key backwards instead of
    # this index, through all of the history where its statistics are old.
    columns = sa.tuple_(c.queue, c.workflow_id, c.priority)
    values = (_QUEUE, workflow, priority)
    given = sa.tuple_(*(sa.literal(value, column.type) for value, column in zip(values, columns.clauses, strict=True)))
    return sa.and_(columns >= given, columns <= given)
