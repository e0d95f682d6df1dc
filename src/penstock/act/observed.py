"""Sees what a library that keeps errors to itself is answered over HTTP, and keeps it away from private addresses."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.act.webhook import retry_after
from penstock.workflows.public_address import AddressRefusedError, check_literal, check_public


@dataclass(slots=True)
class Seen:
    """Of the requests of one call: what the last one that went wrong came to."""

    allow_private: bool
    status: int | None = None
    retry_after: float | None = None
    error: str | None = None
    """Name of the exception, where there was no answer."""
    refused: AddressRefusedError | None = None
    proxy: str | None = None
    """Host of the proxy that the machine's settings name: it resolves for us, wherever it is."""


_seen: ContextVar[Seen | None] = ContextVar("seen", default=None)
_lock = threading.Lock()
_watching = False


@contextmanager
def observed(*, allow_private: bool) -> Iterator[Seen]:
    """While this is entered, requests of the calling thread are looked at; those of others are not touched."""
    _watch()
    seen = Seen(allow_private)
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


def _watch() -> None:
    """Put ourselves around the functions through which all requests go and all names are resolved, once per process."""
    global _watching  # noqa: PLW0603 - one process, one library
    with _lock:
        if _watching:
            return
        from requests import Session  # noqa: PLC0415 - only who notifies needs it
        from requests.utils import select_proxy  # noqa: PLC0415 - the same

        plain = Session.send
        socket.getaddrinfo = _guarded(socket.getaddrinfo)

        @functools.wraps(plain)
        def send(session: Any, request: Any, **options: Any) -> Any:
            seen = _seen.get()
            if seen is None:
                return plain(session, request, **options)
            _check(seen, request.url)
            through = select_proxy(request.url, options.get("proxies"))
            seen.proxy = urlsplit(through).hostname if through else None
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
    def guarded(host: Any, *args: Any, **options: Any) -> Any:
        found = resolve(host, *args, **options)
        seen = _seen.get()
        if seen is None or seen.allow_private or host is None or host == seen.proxy:
            return found
        try:
            for each in found:
                check_public(str(host), str(each[4][0]))
        except AddressRefusedError as error:
            seen.refused = error
            raise
        return found

    return guarded


def _check(seen: Seen, url: str) -> None:
    if seen.allow_private:
        return
    host = urlsplit(url).hostname or ""
    try:
        check_literal(host)
        for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
            check_public(host, str(found[4][0]))
    except AddressRefusedError as error:
        seen.refused = error
        raise
    except OSError as error:
        seen.error = type(error).__name__  # the request itself fails of it, and says so
