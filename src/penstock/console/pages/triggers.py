"""Triggers: what starts workflows, and how each does."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console.frame import Visit, pages, query_of, refreshing
from penstock.console.parts import box, button, empty, grow, link, text, title
from penstock.console.tables import Column, table
from penstock.console.trigger_switch import switch
from penstock.console.trigger_words import trigger_row
from penstock.service.operations import triggers as operations

PATH: Final = "/triggers"
_COLUMNS: Final = (
    Column("trigger", "Trigger", "link", lead=True),
    Column("workflow", "Workflow", "link"),
    Column("state", "State", "chip"),
    Column("topics", "Topics", wide=True),
    Column("lag", "Lag", "number"),
    Column("messages", "Messages", "number"),
    Column("letters", "Dead letters", "number"),
    Column("acts", "", "acts"),
)
_AT_ONCE: Final = 200


@pages.page(PATH, "Triggers", PATH)
async def triggers(visit: Visit) -> None:
    page = await visit.ask(operations.list_triggers, limit=_AT_ONCE, after=visit.asked("after"))
    may = visit.may("triggers.edit")
    with box("head"):
        title("Triggers")
        grow()
        search = ui.input(placeholder="Search   /", value=visit.asked("q") or "").props("outlined dense clearable")
        search.classes("field search").props('data-search aria-label="Search triggers"')
        if may:
            button("New trigger…", lambda: ui.navigate.to("/triggers/new"), "main-act")
    if not page.items:
        empty(
            "There is no trigger yet.",
            "A trigger takes the messages of Kafka topics in and starts a workflow for each. Make one here, or write "
            "it into a workflow's document.",
        )
        return

    async def act(_: str, identifier: str) -> None:
        found = next(each for each in page.items if each.id == identifier)
        await switch(visit, found, look)

    shown = table(
        _COLUMNS if may else _COLUMNS[:-1],
        [trigger_row(each) for each in page.items],
        key="id",
        label="Triggers",
        on_act=act,
    )
    shown.bind_filter_from(search, "value", backward=lambda value: value or "")
    search.on_value_change(lambda event: ui.navigate.history.replace(query_of(visit.request, q=event.value)))
    if page.next is not None:
        with box("head"):
            text(f"{_AT_ONCE} are shown.", "muted")
            link("More", query_of(visit.request, after=page.next))

    async def look() -> None:
        nonlocal page
        page = await visit.ask(operations.list_triggers, limit=_AT_ONCE, after=visit.asked("after"))
        rows = [trigger_row(each) for each in page.items]
        if rows != shown.rows:
            shown.rows = rows

    refreshing(look)
