"""Failed log-ins, counted over all instances; whose they were is kept as a hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from penstock.store.access_tables import failed_logins
from penstock.store.database import Database

_c = failed_logins.c
_FAILURES: Final = sa.select(_c.at).order_by(_c.at.desc())


WINDOW: Final = 300.0
"""Seconds over which failures are counted."""
_WINDOW: Final = int(WINDOW * 1000)


class FailedLogins:
    """The repository of failed log-ins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, hashes: Sequence[str], *, limit: int) -> list[float]:
        """One more of each; how many seconds each has to wait now."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            connection.execute(sa.insert(failed_logins), [{"key_hash": each, "at": now} for each in hashes])
            return _waits(connection, hashes, limit, now)

    def attempt(self, hashes: Sequence[str], *, limit: int) -> tuple[list[float], list[int]]:
        """Count one more of each before it is known how it ends, unless one of them has to wait: how many seconds each
        has to wait, and the numbers of what was counted, none where one has to wait."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            waits = _waits(connection, hashes, limit, now)
            if any(waits):
                return waits, []
            rows = [{"key_hash": each, "at": now} for each in hashes]
            added = [
                connection.execute(sa.insert(failed_logins).values(row).returning(_c.id)).scalar_one() for row in rows
            ]
            return waits, added

    def take_back(self, numbers: Sequence[int]) -> None:
        """Attempts that were counted did not fail."""
        with self._database.write() as connection:
            connection.execute(sa.delete(failed_logins).where(_c.id.in_(numbers)))

    def waits(self, hashes: Sequence[str], *, limit: int) -> list[float]:
        """Seconds until each has no longer failed `limit` times within the window; 0: it has not."""
        with self._database.read() as connection:
            return _waits(connection, hashes, limit, self._database.now(connection))

    def forgive(self, hashes: Sequence[str]) -> None:
        """They have succeeded."""
        with self._database.write() as connection:
            # None that `forget` deletes: two transactions that delete the same rows could wait for each other.
            fresh = _c.at > self._database.now(connection) - _WINDOW
            connection.execute(sa.delete(failed_logins).where(_c.key_hash.in_(hashes), fresh))

    def forget(self) -> int:
        """Delete those that are not counted any more; how many."""
        with self._database.read() as connection:
            old = _c.at <= self._database.now(connection) - _WINDOW
            if connection.scalar(sa.select(_c.id).where(old).limit(1)) is None:
                return 0
        with self._database.write() as connection:
            return connection.execute(sa.delete(failed_logins).where(old)).rowcount


def _waits(connection: sa.Connection, hashes: Sequence[str], limit: int, now: int) -> list[float]:
    """The last `limit` failures of a key count: it waits until the first of those is old."""
    since = now - _WINDOW
    found = (
        connection.scalar(_FAILURES.where(_c.key_hash == each, _c.at > since).limit(1).offset(limit - 1))
        for each in hashes
    )
    return [0.0 if first is None else (first - since) / 1000 for first in found]
