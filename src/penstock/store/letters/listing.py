"""Reading letters: one, a page of a list, all in order, and how many there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.letters import rows, walking
from penstock.store.letters.conditions import among, conditions, has_texts, looking_at_all, one_by_one
from penstock.store.letters.finding import Wanted, soon
from penstock.store.letters.model import (
    OPEN,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterRow,
    DeadLetterStatus,
    DeadLetterStep,
    LetterPage,
    LetterPlace,
    StoredDeadLetter,
    Which,
)
from penstock.store.letters.payloads import PayloadFiles
from penstock.store.tables import dead_letter_payloads, dead_letter_steps, dead_letters

PAGE_SECONDS: Final = 0.2
"""For a page that somebody waits for."""
_PAGE_BYTES: Final = 32_000_000
"""Payloads held at once while letters are read in order."""

_FULL: Final = sa.select(dead_letters, dead_letter_payloads).join(dead_letter_payloads)
_IN_ORDER: Final = tuple(dead_letters.c[name] for name in rows.COORDINATES)

# Within the class, `list` is a method.
Rows = list[DeadLetterRow]
Letters = list[StoredDeadLetter]
Steps = list[DeadLetterStep]
Ids = list[int]


class Listing:
    """The reading side of the repository."""

    def __init__(self, database: Database, files: PayloadFiles) -> None:
        self._database = database
        self._files = files

    def get(self, letter_id: int) -> StoredDeadLetter | None:
        """The letter with its payload and history; None where there is none."""
        with self._database.read() as connection:
            found = connection.execute(_FULL.where(dead_letters.c.id == letter_id)).mappings().one_or_none()
            if found is None:
                return None
            return self._with_history(connection, [found])[0]

    def some(self, ids: Sequence[int]) -> Letters:
        """These letters with payloads and histories; those that are gone are left out."""
        with self._database.read() as connection:
            return self.read(connection, ids, with_history=True)

    def count(self, which: Which | None = None) -> int:
        query = sa.select(sa.func.count()).select_from(dead_letters)
        with self._database.read() as connection:
            return sum(row[0] for row in self.counted(connection, query, which))

    def counts_by_status(self, which: Which | None = None) -> dict[DeadLetterStatus, int]:
        """How many there are in each status that occurs."""
        status = dead_letters.c.status
        query = sa.select(status, sa.func.count().label("letters")).group_by(status)
        with self._database.read() as connection:
            return {row.status: row.letters for row in self.counted(connection, query, which)}

    def counts_by_pipeline(self) -> dict[str, int]:
        """Letters that are neither replayed nor discarded, per pipeline that has any."""
        c = dead_letters.c
        query = sa.select(c.pipeline, sa.func.count()).where(c.status.in_(OPEN)).group_by(c.pipeline)
        with self._database.read() as connection:
            return dict(row for row in connection.execute(query))

    def pipelines_of(self, ids: Sequence[int]) -> set[str]:
        """The pipelines that these letters are of."""
        c = dead_letters.c
        with self._database.read() as connection:
            return set(connection.scalars(sa.select(c.pipeline).where(among(self._database, c.id, ids)).distinct()))

    def list(
        self, which: DeadLetterFilter | None = None, *, limit: int = 100, before: DeadLetterCursor | None = None
    ) -> Rows:
        """The letters that failed last, newest first, whatever it takes; `before` goes on behind the row whose cursor
        it is."""
        return self._found(which, limit, before, math.inf).rows[:limit]

    def page(
        self,
        which: DeadLetterFilter | None = None,
        *,
        limit: int = 100,
        before: DeadLetterCursor | None = None,
        seconds: float = PAGE_SECONDS,
    ) -> LetterPage:
        """The same within so many seconds: where they are over the page has fewer, and goes on from where the search
        has come to."""
        found = self._found(which, limit, before, seconds)
        return found if len(found.rows) <= limit else LetterPage(found.rows[:limit], found.rows[limit - 1].cursor)

    def _found(
        self, which: DeadLetterFilter | None, limit: int, before: DeadLetterCursor | None, seconds: float
    ) -> LetterPage:
        wanted = Wanted(columns=rows.LISTED, which=which or DeadLetterFilter(), before=before, limit=limit)
        with self._database.read() as connection:
            found = walking.found(self._database, connection, wanted, seconds=seconds)
        return LetterPage([DeadLetterRow(**row._asdict()) for row in found.rows], found.on)

    def in_order(self, which: Which | None = None, *, after: LetterPlace | None = None) -> Letters:
        """The next letters by pipeline, topic id, partition and offset, with payloads and histories: as many as fit
        into memory well."""
        with self._database.read() as connection:
            ids = self.next_ids(connection, which, after=after, limit=1_000)
            return self.read(connection, ids, with_history=True)

    def pages(self, which: Which | None = None) -> Iterator[Letters]:
        """All letters in order, page by page."""
        after = None
        while page := self.in_order(which, after=after):
            yield page
            after = page[-1].place

    def counted(self, connection: sa.Connection, query: sa.Select[Any], which: Which | None) -> Sequence[sa.Row[Any]]:
        """Rows of a query that needs all letters of a filter, or by their ids."""
        by_index = query.where(*conditions(self._database, which))
        if not has_texts(which):
            return connection.execute(by_index).all()
        return soon(self._database, connection, by_index, query.where(*looking_at_all(self._database, which)))

    def first(self, connection: sa.Connection, query: sa.Select[Any], which: Which | None) -> Sequence[sa.Row[Any]]:
        """The same of a query that needs the first ones only, in its order."""
        by_index = query.where(*conditions(self._database, which))
        if not has_texts(which):
            return connection.execute(by_index).all()
        return soon(self._database, connection, query.where(*one_by_one(self._database, which)), by_index)

    def next_ids(
        self,
        connection: sa.Connection,
        which: Which | None,
        *more: sa.ColumnElement[bool],
        after: LetterPlace | None,
        limit: int,
    ) -> Ids:
        """Ids in order whose payloads together are not too much; at least one where there is any."""
        query = sa.select(dead_letters.c.id, dead_letters.c.size).where(*more)
        if after is not None:
            query = query.where(sa.tuple_(*_IN_ORDER) > sa.tuple_(*after))
        found = self.first(connection, query.order_by(*_IN_ORDER).limit(limit), which)
        ids: Ids = []
        size = 0
        for letter in found:
            size += letter.size
            if ids and size > _PAGE_BYTES:
                break
            ids.append(letter.id)
        return ids

    def read(self, connection: sa.Connection, ids: Sequence[int], *, with_history: bool) -> Letters:
        """These letters, in order."""
        query = _FULL.where(*conditions(self._database, ids)).order_by(*_IN_ORDER)
        found = connection.execute(query).mappings().all()
        if with_history:
            return self._with_history(connection, found)
        return [rows.stored(row, self._files) for row in found]

    def _with_history(self, connection: sa.Connection, found: Sequence[sa.RowMapping]) -> Letters:
        histories: dict[int, Steps] = {row["id"]: [] for row in found}
        c = dead_letter_steps.c
        mine = among(self._database, c.letter_id, list(histories))
        for step in connection.execute(sa.select(dead_letter_steps).where(mine).order_by(c.letter_id, c.id)):
            histories[step.letter_id].append(rows.step(step))
        return [rows.stored(row, self._files, histories[row["id"]]) for row in found]
