"""Logging in and out; the session's cookie is set by the API, which the page asks by a script of its own."""

from __future__ import annotations

from functools import partial
from typing import Final

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from nicegui import ui

from penstock.console.frame import pages
from penstock.console.parts import box, heading, text
from penstock.console.threads import in_thread
from penstock.console.trouble import show_nobody, theme
from penstock.core.errors import PenstockError
from penstock.service.authentication import SESSION_COOKIE

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
        with ui.element("form").props(f'id=login data-next="{_back(request)}" autocomplete=on'):
            with text("E-mail address", tag="label"):
                ui.element("input").props("name=user type=email required autocomplete=username autofocus")
            with text("Password", tag="label"):
                ui.element("input").props("name=password type=password required autocomplete=current-password")
            text("Log in", tag="button").props("type=submit")
        text("", "problem").props("id=refused role=alert hidden")
        text("No user yet? `penstock users create` makes one.", "muted small")
    return None


@ui.page("/logout", title="Log out · Penstock")
async def logout(request: Request) -> Response | None:
    try:
        await in_thread(partial(pages.authentication.log_out, request.cookies.get(SESSION_COOKIE)))
    except PenstockError as error:
        show_nobody(request, error, lambda: pages.recognised(request))
        return None
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


def _back(request: Request) -> str:
    """Where the person wanted to go: a path of this console, and nothing else."""
    wanted = request.query_params.get("next") or _HOME
    plain = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if plain and '"' not in wanted and "<" not in wanted else _HOME
