"""Reading letters: one, a page of a list, all in order, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.letters import rows
from penstock.store.letters.conditions import (
    among,
    conditions,
    has_only_texts,
    indexed,
    is_answered_by_one_index,
    narrowest,
    plain_conditions,
    text_conditions,
)
from penstock.store.letters.model import (
    OPEN,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterRow,
    DeadLetterStatus,
    DeadLetterStep,
    LetterPlace,
    StoredDeadLetter,
    Which,
)
from penstock.store.letters.payloads import PayloadFiles
from penstock.store.tables import dead_letter_payloads, dead_letter_search, dead_letter_steps, dead_letters

_RECENT: Final = 5_000
"""Newest letters that are looked at one by one before an index is asked for all: what is frequent is among them, and
what is not is found by the index without sorting much."""
_RARE: Final[tuple[DeadLetterStatus, ...]] = ("parked", "replaying")
"""Statuses that choose better than anything else does."""
_PAGE_BYTES: Final = 32_000_000
"""Payloads held at once while letters are read in order."""

_FULL: Final = sa.select(dead_letters, dead_letter_payloads).join(dead_letter_payloads)
_NEWEST_FIRST: Final = (dead_letters.c.last_failed_at.desc(), dead_letters.c.id.desc())
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

    def count(self, which: Which | None = None) -> int:
        query = sa.select(sa.func.count()).select_from(dead_letters).where(*conditions(self._database, which))
        with self._database.read() as connection:
            return connection.scalar(query) or 0

    def counts_by_status(self, which: Which | None = None) -> dict[DeadLetterStatus, int]:
        """How many there are in each status that occurs."""
        status = dead_letters.c.status
        query = sa.select(status, sa.func.count()).where(*conditions(self._database, which)).group_by(status)
        with self._database.read() as connection:
            return dict(row for row in connection.execute(query))

    def counts_by_pipeline(self) -> dict[str, int]:
        """Letters that are neither replayed nor discarded, per pipeline that has any."""
        c = dead_letters.c
        query = sa.select(c.pipeline, sa.func.count()).where(c.status.in_(OPEN)).group_by(c.pipeline)
        with self._database.read() as connection:
            return dict(row for row in connection.execute(query))

    def list(
        self, which: DeadLetterFilter | None = None, *, limit: int = 100, before: DeadLetterCursor | None = None
    ) -> Rows:
        """The letters that failed last, newest first; `before` goes on behind the row whose cursor it is."""
        which = which or DeadLetterFilter()
        with self._database.read() as connection:
            if self._database.is_sqlite or is_answered_by_one_index(which):
                query = sa.select(*rows.LISTED).where(*conditions(self._database, which), *_behind(before))
                return _listed(connection, query, limit)
            recent = _listed(connection, self._among_recent(which, before), limit)
            if len(recent) == limit:
                return recent
            # What is left is found in one go and sorted; the server's default of 4 MB would do that on disk.
            connection.execute(sa.text("SET LOCAL work_mem = '64MB'"))
            if which.status in _RARE:
                return _listed(connection, self._by_status(which, before), limit)
            found = connection.execute(self._by_index(which, before, limit))
            return [DeadLetterRow(**row) for row in found.mappings()]

    def in_order(self, which: Which | None = None, *, after: LetterPlace | None = None) -> Letters:
        """The next letters by pipeline, topic id, partition and offset, with payloads and histories: as many as fit
        into memory well."""
        with self._database.read() as connection:
            ids = self.next_ids(connection, conditions(self._database, which), after=after, limit=1_000)
            return self.read(connection, ids, with_history=True)

    def pages(self, which: Which | None = None) -> Iterator[Letters]:
        """All letters in order, page by page."""
        after = None
        while page := self.in_order(which, after=after):
            yield page
            after = page[-1].place

    def next_ids(
        self,
        connection: sa.Connection,
        wanted: Sequence[sa.ColumnElement[bool]],
        *,
        after: LetterPlace | None,
        limit: int,
        lock: bool = False,
    ) -> Ids:
        """Ids in order whose payloads together are not too much; at least one where there is any."""
        query = sa.select(dead_letters.c.id, dead_letters.c.size).where(*wanted)
        if after is not None:
            query = query.where(sa.tuple_(*_IN_ORDER) > sa.tuple_(*after))
        query = query.order_by(*_IN_ORDER).limit(limit)
        found = connection.execute(query.with_for_update(of=dead_letters) if lock else query).all()
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

    def _among_recent(self, which: DeadLetterFilter, before: DeadLetterCursor | None) -> sa.Select[Any]:
        """Look at the newest letters one by one."""
        newest = sa.select(dead_letters.c.id).where(*narrowest(which), *_behind(before))
        recent = newest.order_by(*_NEWEST_FIRST).limit(_RECENT).subquery("recent")
        query = sa.select(*rows.LISTED).join(recent, recent.c.id == dead_letters.c.id).where(*plain_conditions(which))
        texts = list(text_conditions(self._database, which))
        if texts:
            query = query.join(dead_letter_search, dead_letter_search.c.letter_id == dead_letters.c.id).where(*texts)
        return query

    def _by_status(self, which: DeadLetterFilter, before: DeadLetterCursor | None) -> sa.Select[Any]:
        """Let the planner choose which of the indexes to ask; only the letters' own know the status."""
        wanted = [*plain_conditions(which), *_behind(before), dead_letters.c.id.in_(indexed(self._database, which))]
        # Materialised: the planner would rather walk through all letters in the order of the list, hoping to meet
        # enough of them soon; that there are not many is known by now.
        found = sa.select(dead_letters.c.id).where(*wanted).cte("found").prefix_with("MATERIALIZED")
        return sa.select(*rows.LISTED).join(found, found.c.id == dead_letters.c.id)

    def _by_index(self, which: DeadLetterFilter, before: DeadLetterCursor | None, limit: int) -> sa.Select[Any]:
        """Ask the index of texts, which knows the columns' values too, but for the status; then look at the letters it
        finds, newest first."""
        c = dead_letter_search.c
        found = indexed(self._database, which).add_columns(c.last_failed_at)
        if before is not None:
            found = found.where(sa.tuple_(c.last_failed_at, c.letter_id) < sa.tuple_(*before))
        found = found.order_by(c.last_failed_at.desc(), c.letter_id.desc())
        # The offsets, of nothing, make it one letter after the other: many may be found, and few are wanted.
        newest = (found.limit(limit) if has_only_texts(which) else found.offset(0)).subquery("found")
        mine = sa.select(*rows.LISTED).where(dead_letters.c.id == newest.c.letter_id, *plain_conditions(which))
        letter = mine.offset(0).lateral("letter")
        query = sa.select(*letter.c).select_from(newest.join(letter, sa.true()))
        return query.order_by(newest.c.last_failed_at.desc(), newest.c.letter_id.desc()).limit(limit)


def _behind(before: DeadLetterCursor | None) -> list[sa.ColumnElement[bool]]:
    if before is None:
        return []
    return [sa.tuple_(dead_letters.c.last_failed_at, dead_letters.c.id) < sa.tuple_(*before)]


def _listed(connection: sa.Connection, query: sa.Select[Any], limit: int) -> Rows:
    found = connection.execute(query.order_by(*_NEWEST_FIRST).limit(limit))
    return [DeadLetterRow(**row) for row in found.mappings()]
