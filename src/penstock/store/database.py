"""A connection pool with the store's rules: how transactions begin, how long they wait, which errors mean an outage."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
import structlog
from sqlalchemy.pool import ConnectionPoolEntry

from penstock.core.deadline import Deadline
from penstock.store.errors import StoreAddressError, StoreMissing, StoreUnavailable, translated

if TYPE_CHECKING:
    from penstock.store.vigil import Vigil

log = structlog.get_logger("penstock.store")

BUSY_SECONDS: Final = 30.0
"""How long a call waits for a lock or a free connection before the store counts as away."""

_PATIENCE: Final = 15.0
"""Seconds that a call may take before we ask whether the server answers anybody; most take milliseconds."""
_ALLOWED: Final = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_WRITES: Final = "penstock_writes"

# A server that is gone without a word is noticed within these; an address may say otherwise in its query.
_POSTGRES_DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "penstock",
    # Compiling a query takes longer than any of ours runs.
    # The last one: a process that is frozen within a transaction must not keep its locks.
    "options": f"-c lock_timeout={int(BUSY_SECONDS)}s -c jit=off -c idle_in_transaction_session_timeout=30s",
}


class Database:
    """The pool. `read` and `write` are the only ways to the database; threads may share it."""

    def __init__(self, engine: sa.Engine, vigil: Vigil | None = None) -> None:
        self.engine = engine
        self._vigil = vigil
        self.is_sqlite: Final = engine.dialect.name == "sqlite"
        # SQLite lets one writer in and wakes the others by polling; a queue inside the process is fairer and faster.
        self._writer = threading.Lock() if self.is_sqlite else None
        self.observe: Callable[[str, float], None] = lambda _operation, _seconds: None
        """Told of every transaction that went well: `read` or `write`, and its seconds."""

    @classmethod
    def connect(cls, address: str, *, create: bool) -> Database:
        """A pool for the address; nothing is connected yet, but the file of a new SQLite store is made."""
        url = _parse(address)
        return cls(_sqlite_engine(url, create=create)) if url.get_backend_name() == "sqlite" else cls(*_postgres(url))

    def close(self) -> None:
        if self._vigil is not None:
            self._vigil.close()
        self.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the store."""
        began = time.perf_counter()
        try:
            with self._watched(), self.engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise translated(error) from error
        self.observe("read", time.perf_counter() - began)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that is durable when the block has ended, and undone when the block raises."""
        began = time.perf_counter()
        try:
            with (
                self._turn(),
                self._watched(),
                self.engine.connect().execution_options(**{_WRITES: True}) as connection,
                connection.begin(),
            ):
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise translated(error) from error
        self.observe("write", time.perf_counter() - began)

    def now(self, connection: sa.Connection) -> int:
        """Epoch milliseconds by the one clock that all instances of the store share."""
        return self.micros(connection) // 1_000

    def micros(self, connection: sa.Connection) -> int:
        """The same in microseconds."""
        if self.is_sqlite:
            return time.time_ns() // 1_000
        return int(connection.scalar(sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")) or 0)

    def _watched(self) -> AbstractContextManager[None]:
        return nullcontext() if self._vigil is None else self._vigil.over_call()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._writer is None:
            yield
            return
        if not self._writer.acquire(timeout=BUSY_SECONDS):
            raise StoreUnavailable(f"the store is busy: no turn to write within {BUSY_SECONDS:g} s")
        try:
            yield
        finally:
            self._writer.release()


def _parse(address: str) -> sa.URL:
    try:
        url = sa.make_url(address)
    except sa.exc.ArgumentError as error:
        raise StoreAddressError("the store's address cannot be read", allowed=_ALLOWED) from error
    shown = url.render_as_string(hide_password=True)
    if url.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in {"sqlite", "sqlite+pysqlite"}:
        raise StoreAddressError("the store is neither SQLite nor PostgreSQL", received=shown, allowed=_ALLOWED)
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StoreAddressError("a SQLite store must be a file", received=shown, allowed=_ALLOWED)
    return url


def _sqlite_engine(url: sa.URL, *, create: bool) -> sa.Engine:
    path = Path(url.database or "").expanduser()
    _prepare_file(path, create=create)
    engine = sa.create_engine(
        url.set(database=str(path)),
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        poolclass=sa.QueuePool,
        pool_timeout=BUSY_SECONDS,
        hide_parameters=True,
    )
    sa.event.listen(engine, "connect", _prepare_sqlite_connection)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_file(path: Path, *, create: bool) -> None:
    if path.exists():
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            _make_private(file)
        return
    if not create:
        raise StoreMissing(f"there is no store at {path}", hint="`penstock run` makes one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Payloads may be private; the write-ahead log inherits these rights.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"the store cannot be made at {path}: {error.strerror}") from error


def _make_private(file: Path) -> None:
    """Dead letters hold payloads: take the rights of others away, where a copy or a restore has given them."""
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(file.stat().st_mode)
        if not mode & 0o077:
            return
        try:
            file.chmod(mode & 0o700)
            log.warning("others could open a file of the store; they no longer can", file=str(file), mode=f"{mode:04o}")
        except PermissionError:
            log.warning(
                "others can open a file of the store; its owner should `chmod 600` it",
                file=str(file),
                mode=f"{mode:04o}",
            )


def _prepare_sqlite_connection(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says, not where the driver guesses
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait for a lock here: two processes that open a new store at once would refuse each other.
    deadline = Deadline.after(BUSY_SECONDS)
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or deadline.expired:
                raise
            time.sleep(0.02)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that begins by reading and then writes cannot wait for the lock: SQLite fails it at once.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres(url: sa.URL) -> tuple[sa.Engine, Vigil]:
    # Stores in SQLite need not wait for these.
    import psycopg  # noqa: PLC0415

    from penstock.store.vigil import over_postgres  # noqa: PLC0415

    defaults = {name: value for name, value in _POSTGRES_DEFAULTS.items() if name not in url.query}
    engine = sa.create_engine(
        url,
        module=psycopg,
        connect_args=defaults,
        pool_pre_ping=True,  # after a restart of the server the first call finds a new connection instead of an error
        pool_timeout=BUSY_SECONDS,
        hide_parameters=True,
    )
    return engine, over_postgres(engine, defaults, patience=_PATIENCE)
