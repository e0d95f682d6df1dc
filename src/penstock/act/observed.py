"""Reads what a library that swallows errors is answered over HTTP, and keeps it away from addresses that are not
allowed."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from penstock.act.webhook import retry_after
from penstock.core.net.guard import AddressGuard, AddressRefused


@dataclass(slots=True)
class Seen:
    """Of the requests of one call: the result of the last one that failed."""

    guard: AddressGuard
    status: int | None = None
    retry_after: float | None = None
    error: str | None = None
    """Name of the exception, where there was no answer."""
    refused: AddressRefused | None = None


_seen: ContextVar[Seen | None] = ContextVar("seen", default=None)
_lock = threading.Lock()
_watching = False


@contextmanager
def observed(guard: AddressGuard) -> Iterator[Seen]:
    """While this is entered, requests and look-ups of the calling thread are checked; those of others are not
    touched."""
    _watch()
    seen = Seen(guard)
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


def _watch() -> None:
    """Wrap the functions through which all requests go and all names are resolved, once per process."""
    global _watching  # noqa: PLW0603 - one process, one library
    with _lock:
        if _watching:
            return
        from requests import Session  # noqa: PLC0415 - only who notifies needs it

        plain = Session.send
        socket.getaddrinfo = _guarded(socket.getaddrinfo)

        @functools.wraps(plain)
        def send(session: Any, request: Any, **options: Any) -> Any:
            """Also called for each redirect, so that its address is checked like the first one."""
            seen = _seen.get()
            if seen is None:
                return plain(session, request, **options)
            if not seen.guard.allow_private:
                options["proxies"] = {}  # a proxy of the environment would resolve the name by itself
                session.trust_env = False
            try:
                answer = plain(session, request, **options)
            except Exception as error:
                seen.status, seen.error = None, type(error).__name__
                raise
            if answer.status_code >= 300 or seen.status is None:
                seen.status = answer.status_code
                seen.retry_after = retry_after(answer.headers.get("Retry-After"))
            return answer

        Session.send = send  # type: ignore[method-assign,assignment]  # on purpose
        _watching = True


def _guarded(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """The connection is made to the very addresses that are checked here; mail goes this way, too."""

    @functools.wraps(resolve)
    def guarded(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        found = resolve(host, port, *args, **options)
        seen = _seen.get()
        if seen is None or host is None:
            return found
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
        try:
            seen.guard.check_answer(name, None, [str(each[4][0]) for each in found])
        except AddressRefused as error:
            seen.refused = error
            raise
        return found

    return guarded
