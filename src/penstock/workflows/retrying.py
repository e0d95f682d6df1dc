"""Whether a project may have runs besides those that its messages ask for."""

from __future__ import annotations

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.work.model import ProjectRow
from penstock.store.workflow_tables import usage
from penstock.workflows.limits import LimitReached, period_of


def check_room(database: Database, project: ProjectRow) -> None:
    """Raise `LimitReached` where work orders of the project would be rejected, or not taken in at all."""
    bounds = [bound for bound in (project.soft_limit, project.hard_limit) if bound is not None]
    if not bounds:
        return
    with database.read() as connection:
        period = period_of(project.limit_period, database.micros(connection) / 1e6)
        used = connection.scalar(
            sa.select(usage.c.work_orders).where(usage.c.scope == project.id, usage.c.period == period)
        )
    if (used or 0) >= min(bounds):
        said = "" if project.limit_period == "total" else f" of this {project.limit_period}"
        raise LimitReached(
            f"the limit of project {project.name}, {min(bounds):,} work orders{said}, is reached",
            received=used,
            allowed=min(bounds),
            hint="raise the limit, or retry when the period is over",
        )
