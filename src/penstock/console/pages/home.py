"""Home: how all pipelines are, in five seconds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from penstock.console import words
from penstock.console.data import Overview
from penstock.console.frame import Visit, pages, pipeline_url, query_of, refreshing, url
from penstock.console.overview import Line
from penstock.console.parts import TONES, box, button, confirm, empty, figure, grow, link, text, title
from penstock.console.tables import Column, cell, curve, table
from penstock.core.status import State
from penstock.service.access import Actor
from penstock.service.operations import pipelines
from penstock.service.operations.desk import Desk

_COLUMNS: Final = (
    Column("pipeline", "Pipeline", "link", lead=True),
    Column("state", "State", "chip"),
    Column("lag", "Lag", "number"),
    Column("rate", "Events/s", "rate"),
    Column("errors", "Errors", "number"),
    Column("letters", "Dead letters", "count"),
    Column("last", "Last event"),
    Column("acts", "", "acts"),
)
_FIRST: Final = 50
"""Rows that are drawn at first: the most urgent ones; a page of three hundred takes a browser too long."""
_ACTS: Final[dict[State, list[str]]] = {
    "paused": ["Resume", "Restart"],
    "failed": ["Resume", "Restart"],
    "stopped": ["Resume"],
    "stopping": ["Resume"],
    "invalid": [],
}
_DONE: Final = {"Pause": "paused", "Resume": "resumed", "Restart": "restarted"}
_COMMANDS: Final[dict[str, Callable[[Desk, Actor, str], object]]] = {
    "Pause": pipelines.pause,
    "Resume": pipelines.resume,
    "Restart": pipelines.restart,
}


@pages.page("/", "Pipelines", "/")
async def home(visit: Visit) -> None:
    found = await visit.ask(visit.data.overview)
    if not found.lines:
        _nothing_yet(visit)
        return
    figures = _Figures(found)
    with box("head"):
        title("Pipelines")
        grow()
        search = ui.input(placeholder="Search   /", value=visit.asked("q") or "").props("outlined dense clearable")
        search.classes("field search").props('data-search aria-label="Search pipelines"')
        _new_button(visit)
    every = visit.asked("all") is not None

    seen: list[Overview] = [found]

    def wanted() -> list[dict[str, Any]]:
        # Whoever looks for one looks among all.
        return _ROWS.of(seen[0], every=every or bool(search.value))

    columns = _COLUMNS if visit.may("pipelines.operate") else _COLUMNS[:-1]

    async def act(label: str, name: str) -> None:
        called = next((line.title for line in seen[0].lines if line.pipeline == name), name)
        await _act(visit, label, name, called, look)

    rows = table(columns, wanted(), key="name", label="Pipelines", on_act=act).classes("cards")

    def searched(event: ValueChangeEventArguments[Any]) -> None:
        ui.navigate.history.replace(query_of(visit.request, q=event.value))
        if len(fresh := wanted()) != len(rows.rows):
            rows.rows = fresh

    # Before the filter, so that it finds all of them.
    search.on_value_change(searched)
    rows.bind_filter_from(search, "value", backward=lambda value: value or "")
    if not every:
        _more(visit, len(found.lines), search)
    _elsewhere()

    async def look() -> None:
        now = await visit.ask(visit.data.overview)
        if now is seen[0]:
            return
        seen[0] = now
        figures.show(now)
        fresh = wanted()
        if fresh != rows.rows:
            rows.rows = fresh

    refreshing(look)


async def _act(visit: Visit, label: str, name: str, called: str, look: Callable[[], Awaitable[None]]) -> None:
    """What a button of a row does."""

    async def go(_: str | None = None) -> None:
        if await visit.tell(f"{called}: {_DONE[label]}", _COMMANDS[label], name) is not None:
            await look()

    if label == "Restart":
        say = f"Every instance leaves the group of {called}, lets go of everything, and begins anew. Nothing is lost."
        confirm(f"Restart {called}?", say, go, button_label="Restart").open()
    else:
        await go()


def _more(visit: Visit, known: int, search: ui.input) -> None:
    """That there are others; whoever searches is shown them anyway."""
    if known > _FIRST:
        with box("head") as more:
            text(f"The {_FIRST} most urgent of {known} are shown.", "muted")
            button("Show all", lambda: ui.navigate.to(query_of(visit.request, all=1)))
        more.bind_visibility_from(search, "value", backward=lambda value: not value)


def _nothing_yet(visit: Visit) -> None:
    empty(
        "No pipeline has run yet.",
        "`penstock init` writes a first pipeline file, `penstock run FILE` runs it; it appears here by itself.",
    )
    with box("head"):
        _new_button(visit)
    _elsewhere()

    async def appear() -> None:
        if (await visit.ask(visit.data.overview)).lines:
            ui.navigate.reload()

    refreshing(appear)


def _new_button(visit: Visit) -> None:
    if visit.may("pipelines.edit"):
        button("New pipeline…", lambda: ui.navigate.to("/new/pipeline"))


def _elsewhere() -> None:
    """Where the rest of the work is seen."""
    with box("head"):
        text("Messages that start workflows:", "muted")
        link("History of work orders", "/history")
        link("Workflows", "/workflows")
        link("Triggers", "/triggers")


class _Figures:
    """The sums above the table."""

    def __init__(self, found: Overview) -> None:
        with box("figures"):
            self._rate, _ = figure("events per second", "")
            self._lag, _ = figure("events waiting", "")
            self._errors, _ = figure("highest share of errors", "")
            self._letters, _ = figure("open dead letters", "", target="/dead-letters")
        self.show(found)

    def show(self, found: Overview) -> None:
        lines = found.lines
        events = sum(line.pace.rate for line in lines)
        lags = [line.lag for line in lines if line.lag is not None]
        shares = [line.pace for line in lines if line.pace.error_share is not None]
        worst = max((pace.error_share or 0.0 for pace in shares), default=None)
        letters = sum(line.dead_letters for line in lines)
        self._rate.text = words.rate(events)
        self._lag.text = words.short(sum(lags)) if lags else "—"
        self._errors.text = words.share(worst)
        self._errors.classes(remove="bad", add="bad" if worst else "")
        self._letters.text = words.short(letters)
        self._letters.classes(remove="bad", add="bad" if letters else "")


class _Rows:
    """Rows of the overview seen last: tabs that show the same share them."""

    def __init__(self) -> None:
        self._of: tuple[Overview, list[dict[str, Any]]] | None = None

    def of(self, found: Overview, *, every: bool) -> list[dict[str, Any]]:
        known = self._of
        if known is None or known[0] is not found:
            known = self._of = (found, [_row(line) for line in found.lines])
        return known[1] if every else known[1][:_FIRST]


_ROWS: Final = _Rows()


def _row(line: Line) -> dict[str, Any]:
    shown, area = curve(line.pace.curve)
    share = line.pace.error_share
    made_up = line.title != line.pipeline
    return {
        "name": line.pipeline,
        "called": cell(line.title),
        # Sorted by what people call it, found by its own name too.
        "pipeline": f"{line.title} {line.pipeline}" if made_up else line.pipeline,
        "pipeline_text": cell(line.title),
        "pipeline_why": "trigger" if made_up else None,
        "pipeline_url": pipeline_url(line.pipeline),
        "state": line.urgency,
        "state_text": line.state,
        "state_tone": TONES.get(line.state, "rest"),
        "state_why": cell(line.reason) if line.reason else None,
        "lag": -1 if line.lag is None else line.lag,
        "lag_text": words.short(line.lag),
        "lag_tone": "warm" if line.behind else "",
        "rate": line.pace.rate,
        "rate_text": words.rate(line.pace.rate),
        "rate_curve": shown,
        "rate_area": area,
        "errors": -1.0 if share is None else share,
        "errors_text": words.share(share),
        "errors_tone": "hot" if share else "",
        "letters": line.dead_letters,
        "letters_text": words.number(line.dead_letters),
        "letters_url": url("/dead-letters", pipeline=line.pipeline) if line.dead_letters else None,
        "letters_tone": "hot" if line.dead_letters else "",
        "last": -(line.pace.last_event_at or 0),
        "last_text": words.ago(line.pace.last_event_at),
        "acts": _ACTS.get(line.state, ["Pause", "Restart"]),
    }
