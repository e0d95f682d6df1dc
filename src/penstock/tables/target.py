"""The target database of a pipeline: its engine, transactions that end in an outage or not at all, its limits."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.tables.errors import TargetError, TargetUnavailable, is_refusal, words

if TYPE_CHECKING:
    from penstock.store.vigil import Vigil

Connection = sa.Connection

_BUSY: Final = 30.0
_AT_ONCE: Final = 8
"""Transactions of one process in one database; further ones wait for their turn."""
_KEPT: Final = 2
"""Connections that stay when nothing is written."""
_CONNECT: Final = 5
_FROZEN: Final = 30
"""Seconds that a transaction may do nothing: who is frozen within one must not keep the cursor from the partition's
next owner."""
_DRIVERS: Final = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "mariadb+pymysql": "mariadb+pymysql",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}
_ALLOWED: Final = ["postgresql://user@host/database", "mysql://user@host/database", "sqlite:////path/to/file.db"]


def parse_url(text: str) -> sa.URL:
    """The address with the driver we use, or why it cannot be one."""
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError) as error:
        raise TargetError("the address of the database cannot be read", allowed=_ALLOWED) from error
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise TargetError(f"{url.drivername!r} is no database that tables can be in", allowed=_ALLOWED)
    if driver == "sqlite" and (not url.database or url.database == ":memory:"):
        raise TargetError("a SQLite database must be a file", received=text, allowed=_ALLOWED)
    return url.set(drivername=driver)


class DatabaseAddress(NamedTuple):
    """Where a database is, as its driver reads the address."""

    is_file: bool
    hosts: tuple[str, ...]
    """None: a socket of this machine."""
    options: dict[str, str]


def database_address(text: str) -> DatabaseAddress:
    """What an address leads to; `TargetError` where it is none of a database."""
    url = parse_url(text)
    # PostgreSQL's driver takes several.
    hosts = tuple(host.strip() for host in (url.host or "").split(",") if host.strip())
    options = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    return DatabaseAddress(url.drivername == "sqlite", hosts, options)


class Target:
    """The database of a pipeline; those of a process that name the same one share its connections.

    Hundreds of triggers write to one store, and a server has some hundred connections.
    """

    def __init__(self, url: str, *, timeout: float = 30.0) -> None:
        self.url = parse_url(url)
        self.shown = self.url.render_as_string(hide_password=True)
        self._key = (self.url, timeout)
        self._engine = _SHARED.take(*self._key)
        self._open = True

    @property
    def dialect(self) -> str:
        """`postgresql`, `mysql` (MariaDB too) or `sqlite`."""
        name = self._engine.sql.dialect.name
        return "mysql" if name == "mariadb" else name

    @property
    def sql_dialect(self) -> sa.Dialect:
        return self._engine.sql.dialect

    @property
    def preparer(self) -> sa.sql.compiler.IdentifierPreparer:
        """Quotes names as this database wants them."""
        return self._engine.sql.dialect.identifier_preparer

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Durable when the block has ended; `TargetUnavailable` where the database is away."""
        try:
            with self._engine.watched(), self._engine.sql.connect() as connection, connection.begin():
                yield connection
        except exc.SQLAlchemyError as error:
            if is_refusal(error):
                raise
            raise TargetUnavailable(f"the database {self.shown} does not go along: {words(error)}") from error

    def check_constraints(self, connection: sa.Connection) -> None:
        """Check now what the database would check at COMMIT; raises its refusal.

        I9: a constraint or constraint trigger that is `DEFERRABLE INITIALLY DEFERRED` refuses at COMMIT, where no
        savepoint tells which row it means. Called when the rows of a savepoint are written, not before: rows of one
        event may refer to each other in any order. Deferrable constraints are deferred afterwards, for the same reason.
        """
        if self.dialect == "postgresql":
            connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")

    def inspect(self, table: str) -> sa.Table | None:
        """The table as the database has it; None: there is none."""
        schema, _, name = table.rpartition(".")
        with self.transaction() as connection:
            try:
                return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection)
            except exc.NoSuchTableError:
                return None

    def close(self) -> None:
        if self._open:
            self._open = False
            _SHARED.release(*self._key)


class _Engine(NamedTuple):
    """Connections to a database, and who sees to it that it answers."""

    sql: sa.Engine
    vigil: Vigil | None = None

    def watched(self) -> AbstractContextManager[None]:
        return nullcontext() if self.vigil is None else self.vigil.over_call()

    def close(self) -> None:
        if self.vigil is not None:
            self.vigil.close()
        self.sql.dispose()


class _Shared:
    """Engines of this process, each with the number of targets that use it."""

    def __init__(self) -> None:
        self._engines: dict[tuple[sa.URL, float], tuple[_Engine, int]] = {}
        self._lock = threading.Lock()

    def take(self, url: sa.URL, timeout: float) -> _Engine:
        with self._lock:
            engine, users = self._engines.get((url, timeout)) or (_engine(url, timeout), 0)
            self._engines[url, timeout] = engine, users + 1
            return engine

    def release(self, url: sa.URL, timeout: float) -> None:
        with self._lock:
            engine, users = self._engines.pop((url, timeout))
            if users > 1:
                self._engines[url, timeout] = engine, users - 1
                return
        engine.close()


_SHARED: Final = _Shared()


def _engine(url: sa.URL, timeout: float) -> _Engine:
    arguments: dict[str, Any] = {"pool_size": _KEPT, "max_overflow": _AT_ONCE - _KEPT}
    arguments |= {"pool_pre_ping": True, "hide_parameters": True}
    milliseconds = max(1_000, int(timeout * 800))
    if url.drivername == "postgresql+psycopg":
        # A lock or a slow statement ends before the event's own time is up: it is the database's trouble.
        options = f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}"
        options += f" -c idle_in_transaction_session_timeout={_FROZEN}s"
        given = {"connect_timeout": _CONNECT, "options": options, "keepalives_idle": 30, "tcp_user_timeout": 20_000}
        arguments["connect_args"] = {name: value for name, value in given.items() if name not in url.query}
    elif url.drivername == "sqlite":
        arguments["connect_args"] = {"timeout": min(_BUSY, milliseconds / 1000), "check_same_thread": False}
        url = url.set(database=os.path.expanduser(url.database or ""))  # noqa: PTH111 - a text of the address
    else:
        arguments["connect_args"] = {
            "connect_timeout": _CONNECT,
            "read_timeout": max(1, milliseconds // 1000),
            "write_timeout": max(1, milliseconds // 1000),
            "charset": "utf8mb4",
            # It ends idle connections without a transaction, too; those are opened again when they are needed.
            "init_command": f"SET SESSION wait_timeout = {_FROZEN}",
        }
    try:
        engine = sa.create_engine(url, **arguments)
    except ImportError as error:
        raise TargetError(f"the driver of {url.drivername} is not installed", hint="install penstock[mysql]") from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    if engine.dialect.name != "postgresql":
        return _Engine(engine)
    from penstock.store.vigil import over_postgres  # noqa: PLC0415 - others need not wait for its driver

    # MySQL's client has limits of its own. Before the event's own time is up, for the trouble is the database's.
    quick = {"connect_timeout": max(2, min(_CONNECT, int(timeout / 4)))}
    return _Engine(engine, over_postgres(engine, arguments["connect_args"] | quick, patience=min(15.0, timeout * 0.4)))


def _prepare_sqlite(connection: sqlite3.Connection, _entry: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that begins by reading and then writes cannot wait for the lock: SQLite fails it at once.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
