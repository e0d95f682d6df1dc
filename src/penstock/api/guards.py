"""What every request passes before a route sees it: whom it is for, where it comes from, how large it is."""

from __future__ import annotations

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
_PATIENT: Final = "no-store"


class Guards:
    """An ASGI layer around the whole app, sockets of the console included."""

    def __init__(self, app: ASGIApp, http: HttpSettings) -> None:
        self._app, self._http = app, http

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
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
        with contextlib.suppress(BodyTooLarge):
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


class _Body:
    """Reads a request's body up to a limit. Beyond, the request ends there, and whatever is answered to that is
    replaced by the reason."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._read = 0
        self._exceeded = self._begun = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._limit:
                self._exceeded = True
                raise BodyTooLarge
        return message

    async def send(self, message: Message) -> None:
        if not self._exceeded or self._begun:
            self._begun = True
            await self._send(message)

    async def finish(self, scope: Scope) -> None:
        if self._exceeded and not self._begun:
            await _too_large(self._limit)(scope, self._receive, self._send)


def _too_large(limit: int) -> Response:
    answer = problem(413, "too_large", f"a request may have {limit} bytes at most", allowed=limit)
    # The rest of the body is not read, so nothing can follow it.
    answer.headers["connection"] = "close"
    return answer


def _is_same_origin(scope: Scope, headers: Headers, host: str) -> bool:
    """Browsers say where a request comes from; programs do not. A page elsewhere changes nothing, and has no business
    with the API: it could not read the answers, but open streams and have exports made. People follow links to it."""
    site = headers.get("sec-fetch-site")
    elsewhere = scope["type"] == "http" and site is not None and site not in ("same-origin", "none")
    if scope["type"] == "http" and scope["method"] in _SAFE:
        return not elsewhere or not scope["path"].startswith(_API) or headers.get("sec-fetch-mode") == "navigate"
    if elsewhere:
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _name(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[")
    return host.rpartition(":")[0] if ":" in host else host


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
