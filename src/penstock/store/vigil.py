"""Ends calls to a server that answers nobody any more.

A server that is frozen, with its machine or its disk, keeps its connections: the system confirms what it is sent, and
whoever waits for an answer waits for ever. Who is kept waiting for long asks for a new connection; where that does not
come either, all connections are hung up, and every call ends with an error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import psycopg
import sqlalchemy as sa
import structlog

log = structlog.get_logger("penstock.database")

_LOOKS: Final = 3
"""Within the patience that a call is due."""


class Vigil:
    """Over the calls of one pool of psycopg's connections; threads may share it."""

    def __init__(self, engine: sa.Engine, connect: Callable[[], psycopg.Connection[Any]], *, patience: float) -> None:
        """`connect` makes a connection apart from the pool, or gives up in time; `patience` is for how many seconds a
        call may wait before it is asked for one."""
        self._connect, self._patience = connect, patience
        self._lock = threading.Lock()
        self._calls: dict[object, float] = {}
        """When each that is under way began."""
        self._connections: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        sa.event.listen(engine, "connect", self._made)

    @contextlib.contextmanager
    def over_call(self) -> Iterator[None]:
        """A call is under way within the block."""
        call = object()
        with self._lock:
            self._calls[call] = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="vigil", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._calls[call]

    def close(self) -> None:
        self._over.set()

    def _made(self, connection: psycopg.Connection[Any], _entry: object) -> None:
        with self._lock:
            self._connections.add(connection)

    def _watch(self) -> None:
        while not self._over.wait(self._patience / _LOOKS):
            with self._lock:
                waits = time.monotonic() - min(self._calls.values(), default=time.monotonic())
            if waits >= self._patience and self._is_silent():
                log.warning("a database server does not answer; its connections are hung up", waited_s=round(waits))
                self._hang_up()

    def _is_silent(self) -> bool:
        try:
            self._connect().close()
        except psycopg.errors.ConnectionTimeout:
            return True
        except psycopg.Error:
            return False  # it says something, or is not there at all, which its connections notice by themselves
        return False

    def _hang_up(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            # Not `close`, which would wait for whoever uses it, or take its memory away.
            with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)


def over_postgres(engine: sa.Engine, given: Mapping[str, Any], *, patience: float) -> Vigil:
    """Over an engine that connects with these arguments besides those of its address."""
    arguments, named = engine.dialect.create_connect_args(engine.url)
    return Vigil(engine, lambda: psycopg.connect(*arguments, **{**named, **given}), patience=patience)
