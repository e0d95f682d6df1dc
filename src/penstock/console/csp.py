"""What the console's pages may load and run: nothing from elsewhere, and no script that the server did not write."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Vue compiles its templates in the browser, hence 'unsafe-eval'; markup that got into a page could not use it, for
# inline scripts and handlers need the nonce.
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_OTHERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


_FIRST: Final = (
    b'<script type="importmap">\n      {"imports":',
    b"<script>\n      addStyle = ",
    b'<script type="module">\n      import * as Vue from "vue";',
)
_LAST: Final = b'<script type="module">\n      // Load DOMPurify'
"""The inline scripts of NiceGUI's pages: those before anything of ours, and the one behind all of it."""


def _with_nonce(page: bytes, nonce: str) -> bytes:
    """The nonce in NiceGUI's own scripts, and in no other: markup that was not escaped gets none."""
    marked = f'<script nonce="{nonce}"'.encode()
    for tag in _FIRST:
        page = page.replace(tag, marked + tag.removeprefix(b"<script"), 1)
    before, found, after = page.rpartition(_LAST)
    return before + marked + found.removeprefix(b"<script") + after if found else page


class ContentPolicy:
    """Puts the headers on every answer that is not another part's, and the nonce into the scripts of pages."""

    def __init__(self, app: ASGIApp, not_under: Sequence[str]) -> None:
        self._app, self._not_under = app, tuple(not_under)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(self._not_under):
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        start: Message = {}
        body = bytearray()
        is_page = False

        async def guarded(message: Message) -> None:
            nonlocal start, is_page
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = _POLICY.format(nonce=nonce)
                for name, value in _OTHERS.items():
                    headers[name] = value
                is_page = headers.get("content-type", "").startswith("text/html")
                if not is_page:
                    await send(message)
                start = message
            elif not is_page:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    page = _with_nonce(bytes(body), nonce)
                    MutableHeaders(scope=start)["content-length"] = str(len(page))
                    await send(start)
                    await send({"type": "http.response.body", "body": page})

        await self._app(scope, receive, guarded)
