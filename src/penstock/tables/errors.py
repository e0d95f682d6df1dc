"""Errors of target databases, and the one place that tells an outage from a refusal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.errors import ConfigError, PenstockError, Terminal, Unavailable


class TargetUnavailable(Unavailable):
    """The target database does not answer, is locked or has no room; the same rows may be written later."""

    code = "target-unavailable"


class Fenced(TargetUnavailable):
    """Another instance has moved the cursor: nothing of the chunk is written, and what was read since is read again
    from where the cursor is now, if the partition is still owned."""

    code = "fenced"


class RowRefused(PenstockError, Terminal):
    """The database does not take this row."""

    code = "row-refused"


class ColumnError(PenstockError, Terminal):
    """An event has nothing that fits into a column."""

    code = "column"


class TargetError(ConfigError):
    """The target cannot be used as configured: no such database, table or column."""

    code = "target"


# Only what a database says of the values themselves is a row's fault; everything else (no connection, no room, no
# rights, no such table) concerns no row, and is waited for.
_SQLITE_REFUSALS: Final = frozenset({sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG})
# Data exceptions (22), constraints (23), a check option (44), program limits (54), a trigger's own error (P0001).
_POSTGRES_REFUSALS: Final = ("22", "23", "44", "54", "P0001")
_MYSQL_REFUSALS: Final = frozenset(
    {1048, 1062, 1118, 1216, 1217, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1451, 1452, 1644, 1690, 3140, 3819, 4025}
)
_CONFLICTS: Final = frozenset({"40001", "40P01", 1213, 1205})
"""Transactions that lost to another one."""


def is_refusal(error: BaseException) -> bool:
    """Whether the database refuses a row for what it is; the same row would be refused again."""
    if not isinstance(error, exc.DBAPIError):
        return isinstance(error, exc.StatementError)  # the driver could not even take the value
    if error.connection_invalidated:
        return False
    code = _code(error)
    if isinstance(error.orig, sqlite3.Error):
        return code in _SQLITE_REFUSALS or isinstance(error, exc.InterfaceError)
    if isinstance(code, str):
        return code.startswith(_POSTGRES_REFUSALS)
    if isinstance(code, int):
        return code in _MYSQL_REFUSALS
    # Without a code the driver itself has found the value unfit, before any server saw it.
    return isinstance(error, exc.DataError)


def is_conflict(error: BaseException) -> bool:
    """Whether a transaction lost to another one: it may be repeated at once."""
    cause = error.__cause__
    return isinstance(cause, exc.DBAPIError) and _code(cause) in _CONFLICTS


def _code(error: exc.DBAPIError) -> str | int | None:
    """SQLite's or MySQL's number, or PostgreSQL's five characters."""
    if isinstance(error.orig, sqlite3.Error):
        return int(getattr(error.orig, "sqlite_errorcode", 0)) & 0xFF
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(state, str):
        return state
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else None


def words(error: exc.SQLAlchemyError) -> str:
    """The driver's own words, without the statement, which holds the rows."""
    orig = getattr(error, "orig", None) or error
    args = orig.args
    if len(args) > 1 and isinstance(args[0], int):
        return f"{args[1]} ({args[0]})"
    text = str(orig).strip() or type(orig).__name__
    return text.splitlines()[0]


@contextmanager
def wrapped(connection: sa.Connection) -> Iterator[None]:
    """Work with the driver itself; its errors come as SQLAlchemy's, which name them alike for all databases."""
    dialect = connection.dialect
    base = dialect.loaded_dbapi.Error
    try:
        yield
    except base as error:
        lost = dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
        raise exc.DBAPIError.instance(None, None, error, base, connection_invalidated=lost, dialect=dialect) from error
