"""What dead letters have in common: how many there are of each kind, and which errors they share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.core.dead_letter import Stage
from penstock.store.database import Database
from penstock.store.letters import finding
from penstock.store.letters.conditions import among, conditions, is_answered_by_one_index
from penstock.store.letters.model import DeadLetterFilter
from penstock.store.tables import dead_letters

COUNTED: Final = 10_000
"""Newest letters that are counted: enough to see what goes wrong now, and read in a tenth of a second."""
_ENOUGH: Final = 1_000
"""Letters among the newest that tell how the others spread: to find all that have a frequent text takes seconds."""
_GROUPS: Final = 50
_BY: Final = ("status", "stage", "pipeline", "topic")
_COLUMNS: Final = tuple(dead_letters.c[name] for name in (*_BY, "fingerprint", "id"))


class _Kind(NamedTuple):
    """Letters that have all of it in common."""

    values: tuple[str, ...]
    """Of `_BY`."""
    fingerprint: str
    letters: int
    newest_id: int


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
    """False: there are, or may be, more letters than were counted; these are the newest."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By `status`, `stage`, `pipeline` and `topic`: letters per value, most first."""
    errors: list[ErrorGroup] = field(default_factory=list)
    """Most letters first."""


def facets(database: Database, which: DeadLetterFilter) -> Facets:
    """Count the newest letters that the filter leaves."""
    with database.read() as connection:
        found, complete = _counted(database, connection, which)
        counts: dict[str, Counter[str]] = {name: Counter() for name in _BY}
        shared: Counter[str] = Counter()
        last: dict[str, int] = {}
        for kind in found:
            for name, value in zip(_BY, kind.values, strict=True):
                counts[name][value] += kind.letters
            shared[kind.fingerprint] += kind.letters
            last[kind.fingerprint] = max(last.get(kind.fingerprint, 0), kind.newest_id)
        errors = _groups(database, connection, shared, last)
    return Facets(
        letters=_letters(found),
        complete=complete,
        counts={name: dict(counted.most_common()) for name, counted in counts.items()},
        errors=errors,
    )


def _counted(database: Database, connection: sa.Connection, which: DeadLetterFilter) -> tuple[list[_Kind], bool]:
    """Letters by all that is counted, and whether these are all there are."""
    if not (database.is_sqlite or is_answered_by_one_index(which)):
        looked = sa.select(sa.func.count()).select_from(finding.recent(which, None, COUNTED).subquery("recent"))
        found = _grouped(connection, finding.among_recent(database, _COLUMNS, which, None, looked=COUNTED))
        complete = (connection.scalar(looked) or 0) < COUNTED
        if complete or _letters(found) >= _ENOUGH:
            return found, complete
        newest = finding.beyond_recent(database, connection, _COLUMNS, which, None, limit=COUNTED)
    else:
        newest = sa.select(*_COLUMNS).where(*conditions(database, which)).order_by(*finding.NEWEST_FIRST).limit(COUNTED)
    found = _grouped(connection, newest)
    return found, _letters(found) < COUNTED


def _grouped(connection: sa.Connection, letters: sa.Select[Any]) -> list[_Kind]:
    n = letters.subquery("newest").c
    kinds = [*(n[name] for name in _BY), n.fingerprint]
    query = sa.select(*kinds, sa.func.count(), sa.func.max(n.id)).group_by(*kinds)
    return [_Kind(tuple(row[: len(_BY)]), *row[len(_BY) :]) for row in connection.execute(query)]


def _letters(kinds: list[_Kind]) -> int:
    return sum(kind.letters for kind in kinds)


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
