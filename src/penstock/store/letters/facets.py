"""What dead letters have in common: how many there are of each kind, and which errors they share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import sqlalchemy as sa

from penstock.core.dead_letter import Stage
from penstock.store.database import Database
from penstock.store.letters.conditions import among, conditions
from penstock.store.letters.model import DeadLetterFilter
from penstock.store.tables import dead_letters

COUNTED: Final = 50_000
"""Newest letters that are counted: enough to see what goes wrong now, and read in well under a third of a second."""
_GROUPS: Final = 50
_BY: Final = ("status", "stage", "pipeline", "topic")


class ErrorGroup(NamedTuple):
    """Letters that failed in the same way at the same place."""

    fingerprint: str
    letters: int
    last_failed_at: int
    """Epoch milliseconds."""
    pipeline: str
    stage: Stage
    error_code: str
    error: str
    """Of the letter that failed last."""
    letter_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Counts among the letters that a filter leaves."""

    letters: int = 0
    complete: bool = True
    """False: there are more letters than were counted; these are the newest."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By `status`, `stage`, `pipeline` and `topic`: letters per value, most first."""
    errors: list[ErrorGroup] = field(default_factory=list)
    """Most letters first."""


def facets(database: Database, which: DeadLetterFilter) -> Facets:
    """Count the newest letters that the filter leaves, in one pass."""
    c = dead_letters.c
    columns = [*(c[name] for name in _BY), c.fingerprint, c.last_failed_at, c.id]
    newest = sa.select(*columns).where(*conditions(database, which))
    newest = newest.order_by(c.last_failed_at.desc(), c.id.desc()).limit(COUNTED + 1)
    n = newest.subquery("newest").c
    kinds = [*(n[name] for name in _BY), n.fingerprint]
    query = sa.select(*kinds, sa.func.count().label("letters"), sa.func.max(n.last_failed_at), sa.func.max(n.id))
    with database.read() as connection:
        found = connection.execute(query.group_by(*kinds)).all()
        letters = sum(row.letters for row in found)
        counts: dict[str, Counter[str]] = {name: Counter() for name in _BY}
        shared: Counter[str] = Counter()
        last: dict[str, int] = {}
        for *values, fingerprint, many, _, newest_id in found:
            for name, value in zip(_BY, values, strict=True):
                counts[name][value] += many
            shared[fingerprint] += many
            last[fingerprint] = max(last.get(fingerprint, 0), newest_id)
        errors = _groups(database, connection, shared, last)
    return Facets(
        letters=min(letters, COUNTED),
        complete=letters <= COUNTED,
        counts={name: dict(counted.most_common()) for name, counted in counts.items()},
        errors=errors,
    )


def _groups(
    database: Database, connection: sa.Connection, shared: Counter[str], last: dict[str, int]
) -> list[ErrorGroup]:
    c = dead_letters.c
    wanted = [last[fingerprint] for fingerprint, _ in shared.most_common(_GROUPS)]
    columns = (c.fingerprint, c.last_failed_at, c.pipeline, c.stage, c.error_code, c.error, c.id)
    query = sa.select(*columns).where(among(database, c.id, wanted))
    rows = {row.fingerprint: row for row in connection.execute(query)}
    return [
        ErrorGroup(fingerprint, many, row.last_failed_at, row.pipeline, row.stage, row.error_code, row.error, row.id)
        for fingerprint, many in shared.most_common(_GROUPS)
        if (row := rows.get(fingerprint)) is not None
    ]
