"""Errors of the store, and the one place that decides whether a database error is an outage."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy import exc

from penstock.core.errors import ConfigError, PenstockError, Terminal, Unavailable


class StoreUnavailable(Unavailable):
    """The store does not answer, is locked or has no room; the same call may succeed later."""

    code = "store-unavailable"


class StoreError(PenstockError, Terminal):
    """The store answers, but refuses what was asked."""

    code = "store"


class StoreMissing(StoreError):
    """There is no store at the address, and none was to be made."""

    code = "store-missing"


class StoreTooNew(StoreError):
    """A newer Penstock has upgraded the store; this one does not know its schema."""

    code = "store-too-new"


class StoreRowUnreadable(StoreError):
    """A row holds a value that this Penstock does not know; a newer version, or a person, has written it."""

    code = "store-row"

    def __init__(
        self, table: str, key: object, column: str, value: object, *, allowed: object = None, hint: str | None = None
    ) -> None:
        super().__init__(
            f"{table}, row {key}: column {column} holds {value!r}, which this version of Penstock does not know",
            received=value,
            allowed=allowed,
            hint=hint or "run the version that has written it, or correct the row",
        )


class StoreAddressError(ConfigError):
    """The address is not one of a store."""

    code = "store-address"


_SQLITE_AWAY: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,  # a disk that went read-only after an error, or a volume being moved
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
    }
)

# Connection lost (08), transaction lost to another (40), no disk, memory or connections (53), lock not given in time
# (55P03), operator or timeout ended it (57), disk errors (58), a standby that is not promoted yet (25006).
_POSTGRES_AWAY: Final = ("08", "40", "53", "55P03", "57", "58", "25006")


def translated(error: exc.SQLAlchemyError) -> PenstockError:
    """The store's own error for one of SQLAlchemy's; only the driver's words are kept, for statements hold payloads."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable("no connection to the store came free in time")
    if not isinstance(error, exc.DBAPIError) or error.orig is None:
        return StoreError(
            f"the store refused: {type(error).__name__}", hint="this is a bug in Penstock; please report it"
        )
    words = (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
    if _is_away(error):
        return StoreUnavailable(f"the store is away: {words}")
    return StoreError(f"the store refused: {words}")


def _is_away(error: exc.DBAPIError) -> bool:
    if error.connection_invalidated or isinstance(error, exc.InterfaceError):
        return True
    if isinstance(error.orig, sqlite3.Error):
        # The low byte is the primary code; the rest says which kind of it.
        return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _SQLITE_AWAY
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is None:
        # psycopg gives no state where no server answered: refused, lost, not let in.
        return isinstance(error, exc.OperationalError)
    return state.startswith(_POSTGRES_AWAY)
