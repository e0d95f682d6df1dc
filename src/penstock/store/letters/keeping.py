"""What is done with letters from time to time: the old are forgotten, texts of older versions become searchable."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import sqlalchemy as sa

from penstock.store.letters.claims import Claims
from penstock.store.letters.conditions import among
from penstock.store.letters.model import CLOSED, OPEN, DeadLetterStatus
from penstock.store.tables import dead_letter_payloads, dead_letters

_BATCH: Final = 500
"""Letters per transaction: others wait for its locks."""

_c = dead_letters.c


class Keeping(Claims):
    """The housekeeping side of the repository; each call does one bounded piece of work and says how much it did."""

    def forget(self, *, older_than: float | None, keep: int | None, open_too: bool = False) -> int:
        """Delete a batch of letters that nothing has happened to for so many seconds, or, the oldest first, that are
        more than `keep`. Letters that wait for something stay, unless `open_too`; those of a running replay always."""
        statuses = _forgettable(open_too=open_too)
        with self._database.write() as connection:
            ids: list[int] = []
            if older_than is not None:
                before = self._database.now(connection) - int(older_than * 1000)
                old = (_c.last_failed_at < before) & (_c.changed_at < before)
                ids = list(connection.scalars(_oldest(statuses).where(old).limit(_BATCH)))
            if not ids and keep is not None:
                excess = (connection.scalar(sa.select(sa.func.count()).select_from(dead_letters)) or 0) - keep
                if excess > 0:
                    ids = list(connection.scalars(_oldest(statuses).limit(min(excess, _BATCH))))
            if ids:
                connection.execute(sa.delete(dead_letters).where(among(self._database, _c.id, ids)))
            return len(ids)

    def make_searchable(self) -> int:
        """Put a batch of letters that an older version wrote where texts are looked for."""
        with self._database.write() as connection:
            query = sa.select(_c.id).where(_c.searchable == sa.false()).order_by(_c.id).limit(_BATCH)
            ids = list(connection.scalars(query))
            found = self.read(connection, ids, with_history=False) if ids else []
            if found:
                self._recording.make_searchable(connection, [(each.id, each.letter) for each in found])
                done = sa.update(dead_letters).where(among(self._database, _c.id, ids))
                connection.execute(done.values(searchable=True))
            return len(found)

    def sweep_payloads(self) -> int:
        """Remove payload files that no letter names any more."""
        return self._files.sweep(self._named)

    def _named(self, names: Collection[str]) -> set[str]:
        file = dead_letter_payloads.c.value_file
        query = sa.select(file).where(among(self._database, file, list(names)))
        with self._database.read() as connection:
            return {name for name in connection.scalars(query) if name}


def _forgettable(*, open_too: bool) -> list[DeadLetterStatus]:
    return [*CLOSED, *(status for status in OPEN if open_too and status != "replaying")]


def _oldest(statuses: list[DeadLetterStatus]) -> sa.Select[tuple[int]]:
    return sa.select(_c.id).where(_c.status.in_(statuses)).order_by(_c.last_failed_at, _c.id)
