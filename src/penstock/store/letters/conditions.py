"""Filters as SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.store.database import Database
from penstock.store.letters import search
from penstock.store.letters.model import DeadLetterFilter, Which
from penstock.store.tables import clean, dead_letter_search, dead_letters

Condition = sa.ColumnElement[bool]

_EQUAL: Final = ("pipeline", "topic", "partition", "stage", "status", "fingerprint")
_TAGGED: Final = ("pipeline", "topic", "partition", "stage", "fingerprint")
"""Columns whose values are in the index of texts too; a letter's status changes too often for that."""
_NUMBERS: Final = postgresql.ARRAY(sa.SmallInteger())
_INDEXED: Final[tuple[tuple[str, ...], ...]] = (
    *(("fingerprint",), ("topic", "partition"), ("pipeline", "status")),
    *(("topic",), ("pipeline",), ("stage",), ("status",)),
)
"""Columns that an index of the letters has before the order of lists, the choosiest first."""


def conditions(database: Database, which: Which | None) -> list[Condition]:
    """All that the letters must fulfil."""
    if which is None:
        return []
    if not isinstance(which, DeadLetterFilter):
        return [among(database, dead_letters.c.id, which)]
    found = plain_conditions(which)
    if database.is_sqlite:
        texts = list(text_conditions(database, which))
        if texts:
            mine = dead_letter_search.c.letter_id == dead_letters.c.id
            found.append(sa.exists().where(mine, *texts))
    elif which.error is not None or which.text is not None:
        found.append(dead_letters.c.id.in_(indexed(database, which)))
    return found


def plain_conditions(which: DeadLetterFilter) -> list[Condition]:
    """Those on the letters' own columns."""
    c = dead_letters.c
    found = [c[name] == getattr(which, name) for name in _EQUAL if getattr(which, name) is not None]
    if which.since is not None:
        found.append(c.last_failed_at >= which.since)
    if which.until is not None:
        found.append(c.last_failed_at < which.until)
    return found


def text_conditions(database: Database, which: DeadLetterFilter) -> Iterator[Condition]:
    """Those on the texts, each compared as it is."""
    c = dead_letter_search.c
    holds = sa.func.instr if database.is_sqlite else sa.func.strpos
    if which.error is not None:
        yield holds(c.error, search.wanted(which.error)) > 0
    if which.text is not None:
        wanted = search.wanted(which.text)
        yield (holds(c.error, wanted) > 0) | (holds(c.content, wanted) > 0)


def indexed(database: Database, which: DeadLetterFilter) -> sa.Select[Any]:
    """Ids of letters by PostgreSQL's index of texts; columns narrow the choice and are compared again elsewhere."""
    every = {search.tag(name, _clean(getattr(which, name))) for name in _TAGGED if getattr(which, name) is not None}
    c = dead_letter_search.c
    query = sa.select(c.letter_id).where(*text_conditions(database, which))
    if which.since is not None:
        query = query.where(c.last_failed_at >= which.since)
    if which.until is not None:
        query = query.where(c.last_failed_at < which.until)
    grams = sa.type_coerce(c.grams, _NUMBERS)
    for text in (which.error, which.text):
        asked = search.asked(search.wanted(text or ""))
        every.update(asked.every)
        if asked.some:
            query = query.where(grams.overlap(sa.cast(asked.some, _NUMBERS)))
    return query.where(grams.contains(sa.cast(sorted(every), _NUMBERS))) if every else query


def narrowest(which: DeadLetterFilter) -> list[Condition]:
    """Conditions that one index of the letters answers, in the order of lists: those of the index that has most."""
    given = {name for name in _EQUAL if getattr(which, name) is not None}
    names = next((names for names in _INDEXED if given.issuperset(names)), ())
    found = [dead_letters.c[name] == getattr(which, name) for name in names]
    return found + plain_conditions(DeadLetterFilter(since=which.since, until=which.until))


def is_answered_by_one_index(which: DeadLetterFilter) -> bool:
    """Whether a page of the list is read from an index as it is."""
    return which.error is None and which.text is None and len(narrowest(which)) == len(plain_conditions(which))


def has_only_texts(which: DeadLetterFilter) -> bool:
    """Whether the letters' own columns do not matter, but for the times."""
    return all(getattr(which, name) is None for name in _EQUAL)


def among(database: Database, column: sa.ColumnElement[Any], values: Sequence[Any]) -> Condition:
    """One parameter, however many values: both databases limit the number of parameters."""
    if database.is_sqlite:
        listed = sa.func.json_each(orjson.dumps(list(values)).decode()).table_valued("value")
        return column.in_(sa.select(listed.c.value))
    kind = sa.BigInteger() if isinstance(column.type, sa.Integer) else sa.Text()
    return column == sa.any_(sa.cast(list(values), postgresql.ARRAY(kind)))


def _clean(value: object) -> object:
    return clean(value) if isinstance(value, str) else value
