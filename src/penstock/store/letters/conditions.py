"""Filters as SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.store.database import Database
from penstock.store.letters import search
from penstock.store.letters.model import DeadLetterCursor, DeadLetterFilter, Which
from penstock.store.tables import clean, dead_letter_search, dead_letters

Condition = sa.ColumnElement[bool]

_EQUAL: Final = ("pipeline", "topic", "partition", "stage", "status", "fingerprint")
_TAGGED: Final = ("pipeline", "topic", "partition", "stage", "fingerprint")
"""Columns whose values are in the index of texts too; a letter's status changes too often for that."""
_NUMBERS: Final = postgresql.ARRAY(sa.SmallInteger())
_INDEXED: Final[tuple[tuple[str, ...], ...]] = (
    *(("fingerprint",), ("topic", "partition"), ("pipeline", "status"), ("pipelines", "status")),
    *(("topic",), ("pipeline",), ("pipelines",), ("stage",), ("status",)),
)
"""Columns that an index of the letters has before the order of lists, the choosiest first; for several pipelines their
parts of it are merged."""
_CHOSEN: Final = (*_EQUAL, "pipelines")


def conditions(database: Database, which: Which | None) -> list[Condition]:
    """All that the letters must fulfil."""
    if which is None:
        return []
    if not isinstance(which, DeadLetterFilter):
        return [among(database, dead_letters.c.id, which)]
    found = plain_conditions(database, which)
    if database.is_sqlite:
        texts = list(text_conditions(database, which))
        if texts:
            mine = dead_letter_search.c.letter_id == dead_letters.c.id
            found.append(sa.exists().where(mine, *texts))
    elif has_texts(which):
        found.append(dead_letters.c.id.in_(indexed(database, which)))
    return found


def looking_at_all(database: Database, which: Which | None) -> list[Condition]:
    """The same without the index of texts: it finds what is rare, and takes longer than a look at every text to find
    what half of the letters have."""
    if not has_texts(which):
        return conditions(database, which)
    texts = sa.select(dead_letter_search.c.letter_id).where(*text_conditions(database, which))
    return [*plain_conditions(database, which), dead_letters.c.id.in_(texts)]


def one_by_one(database: Database, which: Which | None) -> list[Condition]:
    """The same for who goes through letters in an order of their own and soon has enough: the texts of each are looked
    at when its turn comes, and of no others."""
    if not has_texts(which):
        return conditions(database, which)
    mine = dead_letter_search.c.letter_id == dead_letters.c.id
    # A planner may make a join of `exists`, and find all letters with the text first; a value it takes as it comes.
    fits = sa.select(sa.true()).where(mine, *text_conditions(database, which)).correlate(dead_letters)
    return [*plain_conditions(database, which), fits.scalar_subquery()]


def has_texts(which: Which | None) -> TypeGuard[DeadLetterFilter]:
    """Whether letters are looked for by a piece of text."""
    return isinstance(which, DeadLetterFilter) and (which.error is not None or which.text is not None)


def plain_conditions(database: Database, which: DeadLetterFilter) -> list[Condition]:
    """Those on the letters' own columns."""
    c = dead_letters.c
    found = [c[name] == getattr(which, name) for name in _EQUAL if getattr(which, name) is not None]
    if which.pipelines is not None:
        found.append(among(database, c.pipeline, which.pipelines))
    return found + time_conditions(which)


def time_conditions(which: DeadLetterFilter) -> list[Condition]:
    """Those on when they failed last."""
    c, found = dead_letters.c, []
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


def ways(which: DeadLetterFilter) -> list[tuple[str, ...]]:
    """Columns by which an index of the letters leads through those of a filter, in the order of lists; the choosiest
    first. Which of them meets the wanted ones sooner is not known before."""
    fitting = [names for names in _INDEXED if _given(which).issuperset(names)]
    return [names for names in fitting if not any(set(names) < set(other) for other in fitting)] or [()]


def along(which: DeadLetterFilter, way: tuple[str, ...]) -> list[Condition]:
    """The conditions that the index itself answers, but for several pipelines."""
    return [dead_letters.c[name] == getattr(which, name) for name in way if name in _EQUAL] + time_conditions(which)


def is_all_along(which: DeadLetterFilter, way: tuple[str, ...]) -> bool:
    """Whether there are no others: each letter on the way is wanted."""
    return which.error is None and which.text is None and _given(which) == set(way)


def behind(before: DeadLetterCursor | None) -> list[Condition]:
    """Older than that."""
    if before is None:
        return []
    return [sa.tuple_(dead_letters.c.last_failed_at, dead_letters.c.id) < sa.tuple_(*before.place)]


def has_only_texts(which: DeadLetterFilter) -> bool:
    """Whether the letters' own columns do not matter, but for the times."""
    return not _given(which)


def among(database: Database, column: sa.ColumnElement[Any], values: Sequence[Any]) -> Condition:
    """One parameter, however many values: both databases limit the number of parameters."""
    if database.is_sqlite:
        listed = sa.func.json_each(orjson.dumps(list(values)).decode()).table_valued("value")
        return column.in_(sa.select(listed.c.value))
    kind = sa.BigInteger() if isinstance(column.type, sa.Integer) else sa.Text()
    return column == sa.any_(sa.cast(list(values), postgresql.ARRAY(kind)))


def _given(which: DeadLetterFilter) -> set[str]:
    return {name for name in _CHOSEN if getattr(which, name) is not None}


def _clean(value: object) -> object:
    return clean(value) if isinstance(value, str) else value
