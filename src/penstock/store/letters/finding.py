"""Letters by the index of texts on PostgreSQL: what is rare, or only long ago, is found by it at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from penstock.core.deadline import Deadline
from penstock.store.database import Database
from penstock.store.letters.conditions import behind, has_only_texts, indexed, plain_conditions
from penstock.store.letters.model import DeadLetterCursor, DeadLetterFilter, DeadLetterStatus
from penstock.store.tables import dead_letter_search, dead_letters

NEWEST_FIRST: Final = (dead_letters.c.last_failed_at.desc(), dead_letters.c.id.desc())
_RARE: Final[tuple[DeadLetterStatus, ...]] = ("parked", "replaying")
"""Statuses that choose better than anything else does."""
_SOON: Final = 0.25
"""Seconds in which the index of texts finds what is rare, and a walk meets what is frequent."""
_CANCELLED: Final = "57014"
"""The server's word for a statement that took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for: letters that a filter leaves, newest first."""

    columns: Sequence[sa.ColumnElement[Any]]
    """With the id."""
    which: DeadLetterFilter
    before: DeadLetterCursor | None = None
    limit: int
    """One more is found where there are more."""


def by_texts(
    database: Database, connection: sa.Connection, wanted: Wanted, deadline: Deadline
) -> Sequence[sa.Row[Any]] | None:
    """The newest of all, in order; None: the index is of no use, and did not answer in time."""
    query = _by_status(database, wanted) if wanted.which.status in _RARE else _by_index(database, wanted)
    return within(connection, query.limit(wanted.limit + 1), deadline)


def soon(
    database: Database, connection: sa.Connection, query: sa.Select[Any], otherwise: sa.Select[Any]
) -> Sequence[sa.Row[Any]]:
    """The answer of a query if it comes soon, else that of another that asks the same, whatever it takes: which of them
    is the better one is known when it has answered."""
    rows = None if database.is_sqlite else within(connection, query, Deadline.after(_SOON))
    return connection.execute(otherwise).all() if rows is None else rows


def within(connection: sa.Connection, query: sa.Select[Any], deadline: Deadline) -> Sequence[sa.Row[Any]] | None:
    """The answer of PostgreSQL, None where it took too long. Locks that the query takes do not outlast it."""
    limited = deadline.remaining < math.inf
    # The settings go with it.
    attempt = connection.begin_nested()
    try:
        # What is found is sorted in one go; the server's default of 4 MB would do that on disk.
        connection.execute(sa.text("SET LOCAL work_mem = '64MB'"))
        if limited:
            millis = max(1, int(1000 * deadline.remaining))  # 0 would mean no limit
            connection.execute(sa.text(f"SET LOCAL statement_timeout = {millis}"))
        return connection.execute(query).all()
    except sa.exc.OperationalError as error:
        if not limited or getattr(error.orig, "sqlstate", None) != _CANCELLED:
            raise
        return None
    finally:
        if attempt.is_active and not connection.invalidated:
            attempt.rollback()


def _by_status(database: Database, wanted: Wanted) -> sa.Select[Any]:
    """Let the planner choose which of the indexes to ask; only the letters' own know the status."""
    texts = dead_letters.c.id.in_(indexed(database, wanted.which))
    conditions = [*plain_conditions(database, wanted.which), *behind(wanted.before), texts]
    # Materialised: the planner would rather walk through all letters in the order of the list, hoping to meet
    # enough of them soon.
    found = sa.select(dead_letters.c.id).where(*conditions).cte("found").prefix_with("MATERIALIZED")
    return sa.select(*wanted.columns).join(found, found.c.id == dead_letters.c.id).order_by(*NEWEST_FIRST)


def _by_index(database: Database, wanted: Wanted) -> sa.Select[Any]:
    """Ask the index of texts, which knows the columns' values too, but for the status; then look at the letters it
    finds, newest first."""
    c, which = dead_letter_search.c, wanted.which
    found = indexed(database, which).add_columns(c.last_failed_at)
    if wanted.before is not None:
        found = found.where(sa.tuple_(c.last_failed_at, c.letter_id) < sa.tuple_(*wanted.before.place))
    found = found.order_by(c.last_failed_at.desc(), c.letter_id.desc())
    # The offsets, of nothing, make it one letter after the other: many may be found, and few are wanted.
    newest = (found.limit(wanted.limit + 1) if has_only_texts(which) else found.offset(0)).subquery("found")
    mine = sa.select(*wanted.columns).where(dead_letters.c.id == newest.c.letter_id, *plain_conditions(database, which))
    letter = mine.offset(0).lateral("letter")
    query = sa.select(*letter.c).select_from(newest.join(letter, sa.true()))
    return query.order_by(newest.c.last_failed_at.desc(), newest.c.letter_id.desc())
