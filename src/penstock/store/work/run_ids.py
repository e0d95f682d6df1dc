"""Ids of new runs that have an order key. Runs of one key are executed in the order of their ids, which must therefore
not depend on the clock of the host that makes them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from penstock.core.clock import SYSTEM, Clock
from penstock.core.ids import ids_at, time_of
from penstock.store.work.claims import QUEUES
from penstock.store.workflow_tables import IN_FLIGHT, runs

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
    query = sa.select(*_last_ids(project, workflow))
    found = connection.execute(query if is_sqlite else query.add_columns(_SERVER_MICROS)).one()
    now = int(clock.time() * 1_000_000) if is_sqlite else found[-1]
    last = [time_of(one) + 1 for one in (found if is_sqlite else found[:-1]) if one is not None]
    return ids_at(max(now, *last) if last else now, count)


def _last_ids(project: str, workflow: str) -> list[sa.ScalarSelect[str]]:
    """The greatest id of each part of an index: of those that wait by queue and priority, and of those in flight."""
    c = runs.c
    of_workflow = c.workflow_id == workflow
    # Written out, not as a parameter: else the planner cannot know that the partial index will do.
    waiting = [
        sa.select(c.id).where(sa.text("state = 'available'"), of_workflow, c.queue == queue, c.priority == priority)
        for queue in QUEUES
        for priority in _PRIORITIES
    ]
    in_flight = sa.select(c.id).where(sa.text(IN_FLIGHT), of_workflow, c.project_id == project)
    return [query.order_by(c.id.desc()).limit(1).scalar_subquery() for query in (*waiting, in_flight)]
