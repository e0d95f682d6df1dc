"""One pipeline: its stages with what each did, its partitions, its errors, its spec and its history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.offsets_dialog import open_offsets
from penstock.console.parts import TONES, box, button, chip, confirm, crumb, empty, grow, text, title
from penstock.console.pipeline_picture import Picture, Shown
from penstock.console.spec_tab import SpecTab
from penstock.console.tables import Column, cell, table
from penstock.console.tap_tab import TapTab
from penstock.core.visible import visible
from penstock.service.access import Actor
from penstock.service.operations import pipelines
from penstock.service.operations.dead_letters import facets
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_models import LetterQuery
from penstock.service.operations.stages import stage_counts

_ERRORS: Final = (
    Column("error", "Error", "link", lead=True, wide=True),
    Column("stage", "Stage"),
    Column("letters", "Letters", "number"),
    Column("last", "Last"),
)
_HISTORY: Final = (
    Column("at", "When"),
    Column("kind", "What"),
    Column("text", "Details", wide=True),
    Column("instance", "Instance", "mono"),
)

_TABS: Final = ("Overview", "Errors", "Live", "Spec", "History")
_COMMANDS: Final[dict[str, Callable[[Desk, Actor, str], object]]] = {
    "paused": pipelines.pause,
    "resumed": pipelines.resume,
    "restarted": pipelines.restart,
    "stopped": pipelines.stop,
}


async def _asked(visit: Visit, name: str, before: Shown | None = None) -> Shown:
    """What changes all the time is asked for again; errors and history are as they were when the page was opened."""
    return Shown(
        detail=await visit.ask(pipelines.get_pipeline, name),
        counts=await visit.ask(stage_counts, name),
        facets=before.facets if before else await visit.ask(facets, LetterQuery(pipeline=name)),
        history=before.history if before else await visit.ask(pipelines.history, name, limit=200),
        pace=visit.data.pace(name),
    )


@pages.page("/pipelines/{name:path}", "Pipeline", "/")
async def pipeline(visit: Visit) -> None:
    name = visit.path["name"]
    ui.page_title(f"{name} · Penstock")
    shown = await _asked(visit, name)
    head = _Head(visit, name)
    with ui.tabs().classes("tabs").props("align=left no-caps dense inline-label") as tabs:
        for tab in _TABS:
            ui.tab(tab)
    opened = (visit.asked("tab") or "").capitalize()
    opened = opened if opened in _TABS else _TABS[0]
    with ui.tab_panels(tabs, value=opened, animated=False).classes("w-full"):
        with ui.tab_panel("Overview").classes("tab-panel"):
            picture = Picture(shown)
        with ui.tab_panel("Errors").classes("tab-panel"):
            _errors(shown)
        with ui.tab_panel("Live").classes("tab-panel"):
            tap = TapTab(visit, name)
        with ui.tab_panel("Spec").classes("tab-panel"):
            spec = SpecTab(visit, name)
        with ui.tab_panel("History").classes("tab-panel"):
            _history(shown)

    async def turned() -> None:
        ui.navigate.history.replace(url(visit.request.url.path, tab=str(tabs.value).lower()))
        if tabs.value == "Spec":
            await spec.opened()
        if tabs.value != "Live":
            tap.stop()

    tabs.on_value_change(turned)
    if opened == "Spec":
        await spec.opened()
    head.show(shown)

    async def look() -> None:
        now = await _asked(visit, name, shown)
        head.show(now)
        picture.show(now)

    head.look = look
    refreshing(look)


class _Head:
    """Name, state and what can be done."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        self.look: Callable[[], Awaitable[None]] | None = None
        with box("head"):
            crumb("Pipelines", "/")
            title(name)
            self._chip = chip("starting")
            grow()
            with box("head") as acts:
                self._resume = button("Resume", lambda: self._act("resumed"), "main-act")
                self._pause = button("Pause", lambda: self._act("paused"))
                button("Restart", self._ask_restart)
                self._stop = button("Stop", self._ask_stop)
                button("Offsets…", lambda: open_offsets(self._visit, self._name))
            acts.visible = visit.may("pipelines.operate")
        self._why = text("", "note warn")

    def show(self, now: Shown) -> None:
        state, reason = now.detail.state, now.detail.reason
        self._why.text = visible(reason or "")
        self._why.visible = bool(reason)
        rests = state in ("paused", "failed", "stopped", "stopping")
        self._resume.visible, self._pause.visible = rests, not rests
        self._stop.visible = state != "stopped"
        self._chip.text = state
        self._chip.classes(replace=f"chip {TONES.get(state, 'rest')}")

    async def _act(self, done: str) -> None:
        await self._visit.tell(f"{self._name}: {done}", _COMMANDS[done], self._name)
        if self.look is not None:
            await self.look()

    def _ask_restart(self) -> None:
        async def go(_: str | None) -> None:
            await self._act("restarted")

        say = "Every instance leaves the group, lets go of everything, and begins anew. Nothing is lost."
        confirm(f"Restart {self._name}?", say, go, button_label="Restart").open()

    def _ask_stop(self) -> None:
        async def go(_: str | None) -> None:
            await self._act("stopped")

        say = "Every instance finishes what is under way and leaves the group, until somebody resumes it."
        confirm(f"Stop {self._name}?", say, go, button_label="Stop").open()


def _errors(shown: Shown) -> None:
    name = shown.detail.name
    if not shown.facets.errors:
        empty("No event of it has failed.", "Events that fail for good are kept as dead letters and grouped here.")
        return
    if not shown.facets.complete:
        text(f"Of the newest {words.number(shown.facets.letters)} dead letters.", "muted")
    rows = [
        {
            "error": group.letters,
            "error_text": cell(group.error),
            "error_url": url("/dead-letters", pipeline=name, fingerprint=group.fingerprint),
            "error_why": cell(group.error_code),
            "stage": group.stage,
            "letters": group.letters,
            "letters_text": words.number(group.letters),
            "last": group.last_failed_at,
            "last_text": words.ago_of(group.last_failed_at),
            "key": group.fingerprint,
        }
        for group in shown.facets.errors
    ]
    table(_ERRORS, rows, key="key", label="Errors")


def _history(shown: Shown) -> None:
    if not shown.history:
        empty("Nothing has happened to it yet.", "Starts, pauses, gaps, resets and failures are kept here.")
        return
    rows = [
        {
            "id": row.id,
            "at": row.at,
            "at_text": words.moment_of(row.at),
            "kind": row.kind,
            "text": cell(row.text),
            "instance": row.instance or "",
        }
        for row in shown.history
    ]
    table(_HISTORY, rows, key="id", label="History")
