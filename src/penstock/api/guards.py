"""What every request passes before a route sees it: whom it is for, where it comes from, how large it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.api.problems import problem
from penstock.config.http_settings import HttpSettings, is_loopback

_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_API: Final = ("/api/", "/projects/")
_OWN: Final = (*_API, "/metrics", "/health/")
_PROBED: Final = ("/metrics", "/health/")
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}
_SOCKET: Final = "/_nicegui_ws/"
_TLS_ONLY: Final = "max-age=31536000"
_BODY_SECONDS: Final = 30.0
"""Between two parts of a request's body."""
_PATIENT: Final = "no-store"


class Guards:
    """An ASGI layer around the whole app, sockets of the console included."""

    def __init__(self, app: ASGIApp, http: HttpSettings, *, is_https: bool = False) -> None:
        """`is_https`: people come over TLS, also where a proxy ends it."""
        self._app, self._http, self._is_https = app, http, is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http" and (self._is_https or scope["scheme"] == "https"):
            send = _over_tls(send)
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        reply = _with_headers(scope, send) if _is_own(scope["path"]) else send
        body = _Body(receive, reply, self._http.max_body)
        with contextlib.suppress(BodyTooLarge, BodyTooSlow):
            await self._app(scope, body.receive, body.send)
        await body.finish(scope)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self._is_ours(host, scope["path"]):
            # A page elsewhere whose name was made to lead here would otherwise be let in as this machine.
            return problem(421, "host", "this server does not answer to that name", hint="http.names lists the names")
        if not _is_same_origin(scope, headers, host):
            return problem(403, "origin", "the request was made by a page of another origin")
        length = headers.get("content-length", "0")
        if scope["type"] == "http" and length.isdecimal() and int(length) > self._http.max_body:
            return _too_large(self._http.max_body)
        return None

    def _is_ours(self, host: str, path: str) -> bool:
        name = _name(host)
        if self._http.names:
            # Probes and scrapers ask by address, and need no log-in either.
            return path.startswith(_PROBED) or name in {known.lower() for known in self._http.names}
        return self._http.auth != "off" or is_loopback(name)


class BodyTooLarge(Exception):
    """More came than a request may bring."""


class BodyTooSlow(Exception):
    """The rest of a request did not come."""


class _Body:
    """Reads a request's body up to a limit, and waits for each part of it for so long. Beyond, the request ends there,
    and whatever is answered to that is replaced by the reason."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._read, self._whole = 0, False
        self._refusal: Response | None = None
        self._begun = False

    async def receive(self) -> Message:
        try:
            # Afterwards only the end of the connection is waited for.
            async with asyncio.timeout(None if self._whole else _BODY_SECONDS):
                message = await self._receive()
        except TimeoutError:
            self._refusal = problem(408, "too_slow", f"nothing more of the body came within {_BODY_SECONDS:g} s")
            raise BodyTooSlow from None
        if message["type"] == "http.request":
            self._whole = not message.get("more_body", False)
            self._read += len(message.get("body", b""))
            if self._read > self._limit:
                self._refusal = _too_large(self._limit)
                raise BodyTooLarge
        return message

    async def send(self, message: Message) -> None:
        if self._refusal is None or self._begun:
            self._begun = True
            await self._send(message)

    async def finish(self, scope: Scope) -> None:
        if self._refusal is not None and not self._begun:
            await self._refusal(scope, self._receive, self._send)


def _too_large(limit: int) -> Response:
    answer = problem(413, "too_large", f"a request may have {limit} bytes at most", allowed=limit)
    # The rest of the body is not read, so nothing can follow it.
    answer.headers["connection"] = "close"
    return answer


def _is_same_origin(scope: Scope, headers: Headers, host: str) -> bool:
    """Browsers say where a request comes from; programs do not. A page elsewhere changes nothing, and reads nothing: it
    could open streams, have exports made and pages built. People follow its links, which is all that is let through."""
    site = headers.get("sec-fetch-site")
    elsewhere = scope["type"] == "http" and site is not None and site not in ("same-origin", "none")
    if elsewhere and not _is_followed(scope, headers):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _is_followed(scope: Scope, headers: Headers) -> bool:
    """Whether somebody followed a link to a page, or to an answer of the API."""
    read = scope["method"] in _SAFE and not scope["path"].startswith(_SOCKET)
    return read and headers.get("sec-fetch-mode") == "navigate"


def _name(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[")
    return host.rpartition(":")[0] if ":" in host else host


def _over_tls(send: Send) -> Send:
    """Browsers that have come over TLS once come over nothing else for a year."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).setdefault("strict-transport-security", _TLS_ONLY)
        await send(message)

    return wrapped


def _is_own(path: str) -> bool:
    return path.startswith(_OWN)


def _with_headers(scope: Scope, send: Send) -> Callable[[Message], Awaitable[None]]:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if scope["path"].startswith("/api/"):
                headers.setdefault("cache-control", _PATIENT)
        await send(message)

    return wrapped


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4403})
        return
    await response(scope, receive, _with_headers(scope, send))
