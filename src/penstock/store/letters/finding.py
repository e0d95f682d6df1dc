"""Letters by filters that no index of theirs answers, the newest first, on PostgreSQL: a look at the newest of all, and
the index of texts for what is not among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.letters.conditions import has_only_texts, indexed, narrowest, plain_conditions, text_conditions
from penstock.store.letters.model import DeadLetterCursor, DeadLetterFilter, DeadLetterStatus
from penstock.store.tables import dead_letter_search, dead_letters

Columns = Sequence[sa.ColumnElement[Any]]

NEWEST_FIRST: Final = (dead_letters.c.last_failed_at.desc(), dead_letters.c.id.desc())
_RECENT: Final = 5_000
"""Newest letters that are looked at one by one before an index is asked for all: what is frequent is among them, and
what is not is found by the index without sorting much."""
_RARE: Final[tuple[DeadLetterStatus, ...]] = ("parked", "replaying")
"""Statuses that choose better than anything else does."""


def behind(before: DeadLetterCursor | None) -> list[sa.ColumnElement[bool]]:
    if before is None:
        return []
    return [sa.tuple_(dead_letters.c.last_failed_at, dead_letters.c.id) < sa.tuple_(*before)]


def recent(which: DeadLetterFilter, before: DeadLetterCursor | None, looked: int) -> sa.Select[Any]:
    """The newest letters by the part of a filter that an index answers."""
    newest = sa.select(dead_letters.c.id).where(*narrowest(which), *behind(before))
    return newest.order_by(*NEWEST_FIRST).limit(looked)


def among_recent(
    database: Database,
    columns: Columns,
    which: DeadLetterFilter,
    before: DeadLetterCursor | None,
    *,
    looked: int = _RECENT,
) -> sa.Select[Any]:
    """Look at the newest letters one by one; in no order."""
    some = recent(which, before, looked).subquery("recent")
    query = sa.select(*columns).join(some, some.c.id == dead_letters.c.id).where(*plain_conditions(which))
    texts = list(text_conditions(database, which))
    if texts:
        query = query.join(dead_letter_search, dead_letter_search.c.letter_id == dead_letters.c.id).where(*texts)
    return query


def beyond_recent(
    database: Database,
    connection: sa.Connection,
    columns: Columns,
    which: DeadLetterFilter,
    before: DeadLetterCursor | None,
    *,
    limit: int,
) -> sa.Select[Any]:
    """The newest of all, in order: that there are not many, or none of them new, is known by now."""
    # What is left is found in one go and sorted; the server's default of 4 MB would do that on disk.
    connection.execute(sa.text("SET LOCAL work_mem = '64MB'"))
    if which.status in _RARE:
        return _by_status(database, columns, which, before).order_by(*NEWEST_FIRST).limit(limit)
    return _by_index(database, columns, which, before, limit)


def _by_status(
    database: Database, columns: Columns, which: DeadLetterFilter, before: DeadLetterCursor | None
) -> sa.Select[Any]:
    """Let the planner choose which of the indexes to ask; only the letters' own know the status."""
    wanted = [*plain_conditions(which), *behind(before), dead_letters.c.id.in_(indexed(database, which))]
    # Materialised: the planner would rather walk through all letters in the order of the list, hoping to meet
    # enough of them soon.
    found = sa.select(dead_letters.c.id).where(*wanted).cte("found").prefix_with("MATERIALIZED")
    return sa.select(*columns).join(found, found.c.id == dead_letters.c.id)


def _by_index(
    database: Database, columns: Columns, which: DeadLetterFilter, before: DeadLetterCursor | None, limit: int
) -> sa.Select[Any]:
    """Ask the index of texts, which knows the columns' values too, but for the status; then look at the letters it
    finds, newest first."""
    c = dead_letter_search.c
    found = indexed(database, which).add_columns(c.last_failed_at)
    if before is not None:
        found = found.where(sa.tuple_(c.last_failed_at, c.letter_id) < sa.tuple_(*before))
    found = found.order_by(c.last_failed_at.desc(), c.letter_id.desc())
    # The offsets, of nothing, make it one letter after the other: many may be found, and few are wanted.
    newest = (found.limit(limit) if has_only_texts(which) else found.offset(0)).subquery("found")
    mine = sa.select(*columns).where(dead_letters.c.id == newest.c.letter_id, *plain_conditions(which))
    letter = mine.offset(0).lateral("letter")
    query = sa.select(*letter.c).select_from(newest.join(letter, sa.true()))
    return query.order_by(newest.c.last_failed_at.desc(), newest.c.letter_id.desc()).limit(limit)
