"""Dead letters: what failed, by what it has in common; replayed or discarded one by one or all that a filter leaves."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, pipeline_url, query_of, refreshing, url
from penstock.console.letter_filters import FACETS, PATH, Chosen, chosen
from penstock.console.parts import TONES, box, button, confirm, empty, grow, link, text, title
from penstock.console.tables import Column, cell, place, table
from penstock.core.deadline import Deadline
from penstock.service.operations import dead_letters as operations
from penstock.service.operations.letter_models import ErrorGroupView, FacetsView, LetterChoice, LetterItem
from penstock.service.operations.paging import Page

_COLUMNS: Final = (
    Column("error", "Error", "link", lead=True, wide=True),
    Column("status", "Status", "chip"),
    Column("stage", "Stage"),
    Column("pipeline", "Pipeline", "link"),
    Column("place", "Topic/partition@offset", "mono"),
    Column("attempts", "Attempts", "number"),
    Column("last", "Failed"),
)
_PAGE: Final = 50
_PATIENCE: Final = 3.0
"""Seconds for which a page waits for a search that finds nothing."""


@pages.page(PATH, "Dead letters", PATH)
async def dead_letters(visit: Visit) -> None:
    asked = chosen(visit)
    titles = await visit.ask(visit.data.titles)
    page = await _page(visit, asked)
    facets = await visit.ask(operations.facets, asked.query)
    with box("head"):
        title("Dead letters")
        text(_count(facets), "muted")
        grow()
        _search(asked)
    if asked.words:
        _tags(asked, facets, titles)
    _newer(visit, asked, page.items[0].id if page.items else None)
    if not page.items:
        _nothing(asked, page.next)
        return
    with box("aside"):
        with box("card"), box("card-body"):
            for name, label in FACETS:
                _facet(asked, name, label, facets.counts.get(name, {}), titles if name == "pipeline" else {})
            _errors(asked, facets.errors)
        with box("head") as right:
            right.style("align-items: stretch; flex-direction: column")
            _list(visit, asked, page, titles)


def _newer(visit: Visit, asked: Chosen, first: int | None) -> None:
    """Says that others have failed since: rows that somebody reads or selects do not move by themselves."""
    if "text" in asked.words or visit.asked("after"):
        return  # a search may take a second, and is not repeated for nothing; older ones have no news
    with box("note") as said:
        text("Others have failed since this list was made. ", tag="span")
        link("Show them", query_of(visit.request))
    said.visible = False

    async def look() -> None:
        newest = (await visit.ask(operations.list_letters, asked.query, limit=1)).items
        said.visible = bool(newest) and newest[0].id != first

    refreshing(look)


async def _page(visit: Visit, asked: Chosen) -> Page[LetterItem]:
    """A search that is answered in parts goes on for a while, until there is something to show."""
    limit, patience = _limit(visit), Deadline.after(_PATIENCE)
    page = await visit.ask(operations.list_letters, asked.query, limit=limit, after=visit.asked("after"))
    while page.next is not None and not page.items and not patience.expired:
        page = await visit.ask(operations.list_letters, asked.query, limit=limit, after=page.next)
    return page


def _limit(visit: Visit) -> int:
    written = visit.asked("limit") or ""
    return min(1000, max(_PAGE, int(written))) if written.isdecimal() else _PAGE


def _count(facets: FacetsView) -> str:
    if not facets.letters and not facets.complete:
        return "few, or none"
    more = "" if facets.complete else "more than "
    return f"{more}{words.number(facets.letters)}"


def _search(asked: Chosen) -> None:
    field = ui.input(placeholder="Search error, key, value   /", value=asked.words.get("text", ""))
    field.props("outlined dense clearable").classes("field search").props(
        'data-search aria-label="Search dead letters"'
    )
    field.on("keydown.enter", lambda: ui.navigate.to(asked.address(text=str(field.value or "") or None)))
    field.on("clear", lambda: ui.navigate.to(asked.address(text=None)))


def _tags(asked: Chosen, facets: FacetsView, titles: dict[str, str]) -> None:
    shared = {group.fingerprint: group.error_code for group in facets.errors}
    known = {"fingerprint": shared, "pipeline": titles}
    with box("head"):
        for name, value in asked.words.items():
            with box("tag"):
                text(f"{name}: {known.get(name, {}).get(value, value)}", tag="span")
                link("✕", asked.address(**{name: None})).props(f'aria-label="Without {name}"')
        link("Clear all", PATH)


def _nothing(asked: Chosen, on: str | None) -> None:
    if on is not None:
        empty("No dead letter like this has been found yet.", "There are older ones that were not searched.")
        button("Search further back", lambda: ui.navigate.to(asked.address(after=on)), "main-act")
    elif asked.words:
        empty("No dead letter is like this.", "Take a filter away to see more.")
    else:
        empty(
            "No event has failed for good.",
            "Events that cannot be decoded, or whose action fails through all its attempts, are kept here with their "
            "original bytes.",
        )


def _facet(asked: Chosen, name: str, label: str, counts: dict[str, int], titles: dict[str, str]) -> None:
    if not counts:
        return
    with box("facet"):
        text(label, "name")
        for value, many in list(counts.items())[:12]:
            here = asked.words.get(name) == value
            address = asked.address(**{name: None if here else value})
            _choice(titles.get(value, value), many, address, here=here, hint=titles.get(value, ""))


def _errors(asked: Chosen, groups: list[ErrorGroupView]) -> None:
    if not groups:
        return
    with box("facet"):
        text("Error", "name")
        for group in groups[:12]:
            here = asked.words.get("fingerprint") == group.fingerprint
            address = asked.address(fingerprint=None if here else group.fingerprint)
            _choice(group.error or group.error_code, group.letters, address, here=here, hint=group.error)


def _choice(value: str, many: int, address: str, *, here: bool, hint: str = "") -> None:
    with link("", address, "here" if here else "") as line:
        line.props(f"aria-current={'true' if here else 'false'}")
        text(cell(value), "value", "span")
        text(words.number(many), "count", "span")
        if hint:
            ui.tooltip(cell(hint)[:300])


def _list(visit: Visit, asked: Chosen, page: Page[LetterItem], titles: dict[str, str]) -> None:
    limit = _limit(visit)

    def selected() -> list[int]:
        return [int(row["id"]) for row in shown.selected]

    def replay() -> None:
        ids = ",".join(map(str, selected()))
        ui.navigate.to(url("/jobs/replay", ids=ids) if ids else asked.address("/jobs/replay"))

    def ask_discard() -> None:
        ids = selected()
        choice = LetterChoice(ids=ids) if ids else asked.choice
        said = f"{len(ids)} selected dead letters" if ids else f"all that are new or parked ({asked.said()})"

        async def go(reason: str | None) -> None:
            job = await visit.tell(None, operations.discard, choice, reason or "")
            if job is not None:
                ui.navigate.to(f"/jobs/{job.id}")

        say = f"Close {said}? Their events are not worked on again; they stay here as discarded."
        confirm("Discard dead letters", say, go, reason=True, button_label="Discard").open()

    with box("head"):
        hint = text("", "muted")
        grow()
        replaying = button("Replay all…", replay)
        discarding = button("Discard all…", ask_discard, "danger")
        may = visit.may("dead_letters.operate")
        hint.visible = replaying.visible = discarding.visible = may

    def name_them() -> None:
        many = len(shown.selected)
        hint.text = f"{many} selected." if many else "What is done here is done to all of them, or to those you select."
        replaying.text = f"Replay {many}…" if many else "Replay all…"
        discarding.text = f"Discard {many}…" if many else "Discard all…"

    rows = [_row(row, titles) for row in page.items]
    shown = table(_COLUMNS, rows, key="id", label="Dead letters", selectable=may)
    shown.on_select(lambda _: name_them())
    name_them()
    if page.next is None:
        return
    with box("head"):
        if len(page.items) < limit:
            text("There are older ones that were not searched.", "muted")
            button("Search further back", lambda: ui.navigate.to(asked.address(after=page.next)))
        else:
            text(f"The newest {limit} are shown.", "muted")
            button("Show more", lambda: ui.navigate.to(asked.address(limit=str(limit + 4 * _PAGE))))


def _row(row: LetterItem, titles: dict[str, str]) -> dict[str, Any]:
    return {
        "id": row.id,
        "error": row.error,
        "error_text": cell(row.error)[:300] or cell(row.error_code),
        "error_url": url(f"{PATH}/{row.id}"),
        "error_why": None if row.error_code in row.error else cell(row.error_code),
        "status": row.status,
        "status_tone": TONES.get(row.status, "rest"),
        "stage": row.stage,
        "pipeline": cell(titles.get(row.pipeline, row.pipeline)),
        "pipeline_url": pipeline_url(row.pipeline),
        **place(row.topic, row.partition, row.offset),
        "attempts": row.attempts,
        "last": row.last_failed_at,
        "last_text": words.ago_of(row.last_failed_at),
    }
