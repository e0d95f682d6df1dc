"""What dead letters have in common: how many there are of each kind, and which errors they share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import sqlalchemy as sa

from penstock.core.dead_letter import Stage
from penstock.store.database import Database
from penstock.store.letters import walking
from penstock.store.letters.conditions import among
from penstock.store.letters.finding import Wanted
from penstock.store.letters.model import DeadLetterFilter
from penstock.store.tables import dead_letters

COUNTED: Final = 10_000
"""Newest letters that are counted: enough to see what goes wrong now, and read in a tenth of a second."""
_ENOUGH: Final = 500
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


def facets(database: Database, which: DeadLetterFilter, seconds: float) -> Facets:
    """Count the newest letters that the filter leaves."""
    with database.read() as connection:
        found, complete = _counted(database, connection, which, seconds)
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


def _counted(
    database: Database, connection: sa.Connection, which: DeadLetterFilter, seconds: float
) -> tuple[list[_Kind], bool]:
    """Letters by all that is counted, and whether these are all there are."""
    wanted = Wanted(columns=_COLUMNS, which=which, limit=COUNTED)
    newest_first = walking.found(database, connection, wanted, enough=_ENOUGH, recent=COUNTED, seconds=seconds)
    counted = newest_first.rows[:COUNTED]
    kinds = Counter(row[: len(_BY) + 1] for row in counted)
    newest: dict[tuple[str, ...], int] = {}
    for row in counted:
        newest.setdefault(row[: len(_BY) + 1], row.id)
    found = [_Kind(kind[:-1], kind[-1], many, newest[kind]) for kind, many in kinds.items()]
    return found, newest_first.complete


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
