"""Logging in; the session's cookie is set by the API, which the page asks by a script of its own."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from nicegui import ui

from penstock.console.frame import pages
from penstock.console.parts import box, heading, link, text
from penstock.console.trouble import show_nobody, theme
from penstock.core.errors import PenstockError

_HOME: Final = "/"


@ui.page("/login", title="Log in · Penstock")
async def login(request: Request) -> Response | None:
    try:
        if await pages.recognised(request) is not None:
            return RedirectResponse(_back(request), status_code=303)
    except PenstockError as error:
        show_nobody(request, error, lambda: pages.recognised(request))
        return None
    theme(request)
    with box("login card"):
        with box("brand"):
            ui.element("img").props('src="/_console/mark.svg" alt=""')
            text("Penstock", tag="span")
        heading("Log in")
        if pages.authentication.has_provider:
            link("Log in at your organisation", f"/api/v1/session/oidc?{urlencode({'to': _back(request)})}", "provider")
        if pages.authentication.takes_passwords:
            _password_form(request)
        with ui.element("details").classes("by-token"):
            text("Log in with a token", tag="summary")
            _token_form(request)
        text("", "problem").props("id=refused role=alert hidden")
        text("No user yet? The first start writes an admin token to the file `first-token` of its home.", "muted small")
    return None


def _password_form(request: Request) -> None:
    with ui.element("form").props(f'data-login data-next="{_back(request)}" autocomplete=on'):
        with text("E-mail address", tag="label"):
            ui.element("input").props("name=user type=email required autocomplete=username autofocus")
        with text("Password", tag="label"):
            ui.element("input").props("name=password type=password required autocomplete=current-password")
        text("Log in", tag="button").props("type=submit")


def _token_form(request: Request) -> None:
    with ui.element("form").props(f'data-login data-next="{_back(request)}" autocomplete=off'):
        with text("Token", tag="label"):
            ui.element("input").props("name=token type=password required autocomplete=off")
        text("Use token", tag="button").props("type=submit")


def _back(request: Request) -> str:
    """Where the person wanted to go: a path of this console, and nothing else."""
    wanted = request.query_params.get("next") or _HOME
    plain = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if plain and '"' not in wanted and "<" not in wanted else _HOME
