"""When a page cannot be built, or what was pressed on one cannot be done: said in words, and looked at again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from fastapi import Request
from nicegui import ui

from penstock.console.parts import box, notify, problem, text
from penstock.core.errors import PenstockError
from penstock.store import StoreUnavailable

log = structlog.get_logger("penstock.console")

_TRY_EVERY: Final = 2.0
_BROKEN: Final = "This did not work, and should have. The log of the instance has the reason."


def outage(error: PenstockError) -> str:
    """An error of the store as one sentence."""
    return f"{error.message[:1].upper()}{error.message[1:].rstrip('.')}."


def show_refusal(error: PenstockError, works: Callable[[], Awaitable[object]]) -> None:
    """Why there is no page; where the store is away, until `works` no longer fails."""
    problem(error)
    if not isinstance(error, StoreUnavailable):
        return
    ui.context.client.status_code = 503
    text("This page is shown as soon as the store answers again. Pipelines that meet no failure go on.", "muted")

    async def again() -> None:
        try:
            await works()
        except PenstockError:
            return
        ui.navigate.reload()

    ui.timer(_TRY_EVERY, again, immediate=False)


def show_nobody(request: Request, error: PenstockError, works: Callable[[], Awaitable[object]]) -> None:
    """A page of its own, for someone who could not be recognised, as the store is away."""
    theme(request)
    ui.context.client.title = "Penstock"
    with box("main"):
        with box("brand"):
            ui.element("img").props('src="/_console/mark.svg" alt=""')
            text("Penstock", tag="h1").classes("title")
        show_refusal(error, works)


def show_mistake(error: Exception) -> None:
    """A mistake of ours: the page says that it is one."""
    log.error("a page could not be built", exc_info=error)
    ui.context.client.status_code = 500
    problem(_BROKEN)


def tell_mistake(error: Exception) -> None:
    """The same of something that was pressed, which nobody else has told."""
    notify(str(error) if isinstance(error, PenstockError) else _BROKEN, good=False)


def theme(request: Request) -> ui.dark_mode:
    """Light, dark, or as the browser likes."""
    return ui.dark_mode({"dark": True, "light": False}.get(request.cookies.get("penstock_theme") or ""))
