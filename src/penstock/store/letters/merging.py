"""The letters of several pipelines as one list, newest first: each pipeline's part of the index is in order already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.store.database import Database
from penstock.store.letters.conditions import Condition
from penstock.store.letters.finding import NEWEST_FIRST
from penstock.store.letters.model import DeadLetterCursor
from penstock.store.tables import dead_letters

Place = tuple[int, int]
"""When a letter failed last, and its id."""

_FEWEST: Final = 2
"""Letters of each pipeline that are asked for at first: of hundreds of pipelines, most have none on a page."""
_DEEPER: Final = 4
"""How many times as many are asked for of those that have more to give."""
_AT_ONCE: Final = 100
"""SQLite takes no more than 500 parts of a union."""
_NEWEST: Final[Place] = (2**63 - 1, 2**63 - 1)

_c = dead_letters.c


class Merge:
    """Goes through the letters of some pipelines. It reads a few of each, and more only of those whose next ones may
    belong to what is wanted: the effort grows with that, not with what lies behind."""

    def __init__(
        self,
        database: Database,
        connection: sa.Connection,
        pipelines: Sequence[str],
        conditions: Sequence[Condition],
        before: DeadLetterCursor | None,
    ) -> None:
        self._database, self._connection, self._conditions = database, connection, conditions
        begin = _NEWEST if before is None else before.place
        self._read_to: dict[str, Place] = dict.fromkeys(pipelines, begin)
        """How far each pipeline has been read; those that were read to their end are gone."""
        self._ahead: list[Place] = []
        """Read, and not taken yet."""

    def take(self, size: int) -> list[Place]:
        """The next ones, fewer only where there are no more."""
        deep = max(_FEWEST, 2 * size // max(1, len(self._read_to)))
        while True:
            self._ahead.sort(reverse=True)
            # What a pipeline has behind the last of the wanted cannot be among them.
            last = self._ahead[size - 1] if len(self._ahead) >= size else None
            unread = [name for name, place in self._read_to.items() if last is None or place > last]
            if not unread:
                break
            self._read(unread, min(deep, size))
            deep *= _DEEPER
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    def _read(self, names: Sequence[str], deep: int) -> None:
        found: dict[str, list[Place]] = {name: [] for name in names}
        for name, at, number in self._next(names, deep):
            found[name].append((at, number))
        for name, places in found.items():
            self._ahead += places
            if len(places) < deep:
                del self._read_to[name]
            else:
                self._read_to[name] = min(places)

    def _next(self, names: Sequence[str], deep: int) -> Iterator[Any]:
        if self._database.is_sqlite:
            for start in range(0, len(names), _AT_ONCE):
                yield from self._connection.execute(self._union(names[start : start + _AT_ONCE], deep))
        else:
            yield from self._connection.execute(self._laterals(names, deep))

    def _some(self, name: Any, at: Any, number: Any, deep: int) -> sa.Select[Any]:
        behind = sa.tuple_(_c.last_failed_at, _c.id) < sa.tuple_(at, number)
        some = sa.select(_c.last_failed_at, _c.id).where(_c.pipeline == name, behind, *self._conditions)
        return some.order_by(*NEWEST_FIRST).limit(deep)

    def _union(self, names: Sequence[str], deep: int) -> sa.CompoundSelect[Any]:
        parts = []
        for name in names:
            some = self._some(name, *self._read_to[name], deep).subquery()
            parts.append(sa.select(sa.literal(name), some.c.last_failed_at, some.c.id))
        return sa.union_all(*parts)

    def _laterals(self, names: Sequence[str], deep: int) -> sa.Select[Any]:
        texts, numbers = postgresql.ARRAY(sa.Text()), postgresql.ARRAY(sa.BigInteger())
        ats, ids = zip(*(self._read_to[name] for name in names), strict=True)
        given = (sa.cast(list(names), texts), sa.cast(list(ats), numbers), sa.cast(list(ids), numbers))
        asked = sa.func.unnest(*given).table_valued("name", "at", "id").render_derived("asked")
        mine = self._some(asked.c.name, asked.c.at, asked.c.id, deep).lateral("mine")
        return sa.select(asked.c.name, mine.c.last_failed_at, mine.c.id).select_from(asked.join(mine, sa.true()))
