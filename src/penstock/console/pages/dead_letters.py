"""Dead letters: what failed, by what it has in common; replayed or discarded one by one or all that a filter leaves."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, url
from penstock.console.letter_filters import FACETS, PATH, Chosen, chosen
from penstock.console.parts import TONES, box, button, confirm, empty, grow, link, text, title
from penstock.console.tables import Column, cell, table
from penstock.service.operations import dead_letters as operations
from penstock.service.operations.letter_models import ErrorGroupView, FacetsView, LetterChoice, LetterItem
from penstock.service.operations.paging import Page

_COLUMNS: Final = (
    Column("error", "Error", "link", lead=True, wide=True),
    Column("status", "Status", "chip"),
    Column("stage", "Stage"),
    Column("pipeline", "Pipeline"),
    Column("place", "Topic/partition@offset", "mono"),
    Column("attempts", "Attempts", "number"),
    Column("last", "Failed"),
)
_PAGE: Final = 50


@pages.page(PATH, "Dead letters", PATH)
async def dead_letters(visit: Visit) -> None:
    asked = chosen(visit)
    page = await visit.ask(operations.list_letters, asked.query, limit=_limit(visit))
    facets = await visit.ask(operations.facets, asked.query)
    with box("head"):
        title("Dead letters")
        text(_count(facets), "muted")
        grow()
        _search(asked)
    if asked.words:
        _tags(asked, facets)
    if not page.items:
        _nothing(asked)
        return
    with box("aside"):
        with box("card"), box("card-body"):
            for name, label in FACETS:
                _facet(asked, name, label, facets.counts.get(name, {}))
            _errors(asked, facets.errors)
        with box("head") as right:
            right.style("align-items: stretch; flex-direction: column")
            _list(visit, asked, page)


def _limit(visit: Visit) -> int:
    written = visit.asked("limit") or ""
    return min(1000, max(_PAGE, int(written))) if written.isdecimal() else _PAGE


def _count(facets: FacetsView) -> str:
    more = "" if facets.complete else "more than "
    return f"{more}{words.number(facets.letters)}"


def _search(asked: Chosen) -> None:
    field = ui.input(placeholder="Search error, key, value   /", value=asked.words.get("text", ""))
    field.props("outlined dense clearable").classes("field search").props(
        'data-search aria-label="Search dead letters"'
    )
    field.on("keydown.enter", lambda: ui.navigate.to(asked.address(text=str(field.value or "") or None)))
    field.on("clear", lambda: ui.navigate.to(asked.address(text=None)))


def _tags(asked: Chosen, facets: FacetsView) -> None:
    shared = {group.fingerprint: group.error_code for group in facets.errors}
    with box("head"):
        for name, value in asked.words.items():
            with box("tag"):
                text(f"{name}: {shared.get(value, value) if name == 'fingerprint' else value}", tag="span")
                link("✕", asked.address(**{name: None})).props(f'aria-label="Without {name}"')
        link("Clear all", PATH)


def _nothing(asked: Chosen) -> None:
    if asked.words:
        empty("No dead letter is like this.", "Take a filter away to see more.")
    else:
        empty(
            "No event has failed for good.",
            "Events that cannot be decoded, or whose action fails through all its attempts, are kept here with their "
            "original bytes.",
        )


def _facet(asked: Chosen, name: str, label: str, counts: dict[str, int]) -> None:
    if not counts:
        return
    with box("facet"):
        text(label, "name")
        for value, many in list(counts.items())[:12]:
            here = asked.words.get(name) == value
            _choice(value, many, asked.address(**{name: None if here else value}), here=here)


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


def _list(visit: Visit, asked: Chosen, page: Page[LetterItem]) -> None:
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
        replaying.visible = discarding.visible = visit.may("dead_letters.operate")

    def name_them() -> None:
        many = len(shown.selected)
        hint.text = f"{many} selected." if many else "What is done here is done to all of them, or to those you select."
        replaying.text = f"Replay {many}…" if many else "Replay all…"
        discarding.text = f"Discard {many}…" if many else "Discard all…"

    shown = table(_COLUMNS, [_row(row) for row in page.items], key="id", label="Dead letters", selectable=True)
    shown.on_select(lambda _: name_them())
    name_them()
    if page.next is not None:
        with box("head"):
            text(f"The newest {limit} are shown.", "muted")
            button("Show more", lambda: ui.navigate.to(asked.address(limit=str(limit + 4 * _PAGE))))


def _row(row: LetterItem) -> dict[str, Any]:
    return {
        "id": row.id,
        "error": row.error,
        "error_text": cell(row.error)[:300] or cell(row.error_code),
        "error_url": url(f"{PATH}/{row.id}"),
        "status": row.status,
        "status_tone": TONES.get(row.status, "rest"),
        "stage": row.stage,
        "pipeline": cell(row.pipeline),
        "place": f"{row.topic}/{row.partition}@{row.offset}",
        "attempts": row.attempts,
        "last": row.last_failed_at,
        "last_text": words.ago_of(row.last_failed_at),
    }
