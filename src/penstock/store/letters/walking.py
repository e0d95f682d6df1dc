"""Letters by a filter, newest first, within a given time: whatever is asked for, somebody waits for the answer.

Most filters are answered by looking at the newest letters one by one along an index. What is not among them may be
rare, or only long ago: the index of texts knows. Where that is of no use either (a sign that half of the letters have),
the walk goes on for as long as there is time, and the answer says where it has come to.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from penstock.core.deadline import Deadline
from penstock.store.database import Database
from penstock.store.letters.conditions import (
    along,
    among,
    behind,
    is_all_along,
    plain_conditions,
    text_conditions,
    ways,
)
from penstock.store.letters.finding import NEWEST_FIRST, Wanted, by_texts
from penstock.store.letters.merging import Merge, Place
from penstock.store.letters.model import DeadLetterCursor
from penstock.store.tables import dead_letter_search, dead_letters

RECENT: Final = 5_000
"""Newest letters that are looked at before the index of texts is asked: what is frequent is among them."""
_FIRST: Final = 500
"""Letters of the first look: a hundredth of a second where they are in memory, a tenth where they are not."""
_MOST: Final = 5_000
_FEWEST: Final = 100
"""Of later ones."""
_RECENTLY: Final = 0.25
_BY_TEXTS: Final = 0.85
"""Shares of the time at which the newest have been looked at, and at which the index of texts has answered."""

_PLACE: Final = (dead_letters.c.last_failed_at, dead_letters.c.id)


class Found(NamedTuple):
    """What there was."""

    rows: Sequence[sa.Row[Any]]
    """Newest first; one more than wanted where there are more."""
    on: DeadLetterCursor | None
    """Where the walk has come to; None: nothing more is wanted, or there is nothing more."""
    complete: bool
    """These are all there are."""


def found(
    database: Database,
    connection: sa.Connection,
    wanted: Wanted,
    *,
    enough: int | None = None,
    recent: int = RECENT,
    seconds: float = math.inf,
) -> Found:
    """The newest letters, one more than the limit where there are more. `enough`: so many among the newest do as well.
    Without `seconds` all are found, whatever it takes."""
    end, by_then = Deadline.after(seconds), Deadline.after(_BY_TEXTS * seconds)
    walks = [
        (_MergedWalk if "pipelines" in way else _Walk)(database, connection, wanted, way) for way in ways(wanted.which)
    ]
    for walk in walks:
        turn = Deadline.after(_RECENTLY * seconds / len(walks))
        # At least once: who goes on from where it has come to must come to an end.
        walk.go_on(end)
        while not walk.over and walk.looked < recent and not turn.expired:
            walk.go_on(end)
        if walk.over:
            return walk.found(walked=False)
    best = max(walks, key=lambda walk: len(walk.rows))
    if enough is not None and len(best.rows) >= enough:
        return best.found(walked=False)
    if not database.is_sqlite and not (wanted.before is not None and wanted.before.walks):
        limit = wanted.limit if enough is None else min(wanted.limit, 2 * enough)
        rows = by_texts(database, connection, replace(wanted, limit=limit), by_then)
        if rows is not None:
            return Found(rows, None, complete=len(rows) <= limit)
    while not best.over and not end.expired:
        best.go_on(end)
    return best.found(walked=True)


class _Walk:
    """Along one index, from the newest letter to the oldest."""

    def __init__(self, database: Database, connection: sa.Connection, wanted: Wanted, way: tuple[str, ...]) -> None:
        self.rows: list[sa.Row[Any]] = []
        self.looked = 0
        self._connection, self._wanted, self._place, self._ended = connection, wanted, wanted.before, False
        self._along = along(wanted.which, way)
        self._texts = list(text_conditions(database, wanted.which))
        all_fit = is_all_along(wanted.which, way)
        self._others = [] if all_fit else plain_conditions(database, wanted.which)
        self._size = min(wanted.limit + 1, _MOST // 5) if all_fit else _FIRST
        self._pace = 0.0
        """Seconds that a letter of the last look took."""

    @property
    def over(self) -> bool:
        """Nothing more is wanted, or there is nothing more."""
        return self._ended or len(self.rows) > self._wanted.limit

    def found(self, *, walked: bool) -> Found:
        on = None if self.over or self._place is None else self._place._replace(walks=walked)
        return Found(self.rows, on, self._ended and len(self.rows) <= self._wanted.limit)

    def go_on(self, end: Deadline) -> None:
        """Look at some more; how many is a matter of how fast it goes, and of the time that is left now."""
        began = time.monotonic()
        fits = end.remaining / self._pace if self._pace else math.inf
        size = int(min(self._size, max(_FEWEST, fits)))
        edge = self._look(size)
        self._place = DeadLetterCursor(*edge) if edge is not None else self._place
        self._ended, self.looked = edge is None, self.looked + size
        self._size, self._pace = min(_MOST, 4 * size), (time.monotonic() - began) / size

    def _look(self, size: int) -> Place | None:
        """Take what is wanted of so many letters; the last of them, None where there are no more."""
        edge = self._connection.execute(
            sa.select(*_PLACE)
            .where(*self._along, *behind(self._place))
            .order_by(*NEWEST_FIRST)
            .offset(size - 1)
            .limit(1)
        ).one_or_none()
        on_the_way = [*self._along, *behind(self._place)]
        if edge is not None:
            on_the_way += [_PLACE[0] >= edge.last_failed_at, sa.tuple_(*_PLACE) >= sa.tuple_(*edge)]
        # The limit keeps no letter out, for the edge does; the planner would take them for a third of all.
        newest = sa.select(dead_letters.c.id).where(*on_the_way).order_by(*NEWEST_FIRST)
        some = newest.limit(size).subquery("some")
        query = self._query().join(some, some.c.id == dead_letters.c.id).order_by(*NEWEST_FIRST)
        self.rows += self._connection.execute(query.limit(self._room)).all()
        return None if edge is None else (edge.last_failed_at, edge.id)

    def _query(self) -> sa.Select[Any]:
        query = sa.select(*self._wanted.columns).where(*self._others)
        if self._texts:
            mine = dead_letter_search.c.letter_id == dead_letters.c.id
            query = query.join(dead_letter_search, mine).where(*self._texts)
        return query

    @property
    def _room(self) -> int:
        """Letters that are wanted yet, and one."""
        return self._wanted.limit + 1 - len(self.rows)


class _MergedWalk(_Walk):
    """Along one index, through its parts for several pipelines at the same time."""

    def __init__(self, database: Database, connection: sa.Connection, wanted: Wanted, way: tuple[str, ...]) -> None:
        super().__init__(database, connection, wanted, way)
        self._database = database
        self._merge = Merge(database, connection, wanted.which.pipelines or (), self._along, wanted.before)

    def _look(self, size: int) -> Place | None:
        places = self._merge.take(size)
        order = {number: at for at, (_, number) in enumerate(places)}
        query = self._query().where(among(self._database, dead_letters.c.id, list(order)))
        # Sorted here: with a limit, the planner would rather walk through everybody's letters, hoping to meet these.
        self.rows += sorted(self._connection.execute(query), key=lambda row: order[row.id])[: self._room]
        return places[-1] if len(places) == size else None
