"""One pipeline: its stages with what each did, its partitions, its errors, its spec and its history."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.offsets_dialog import open_offsets
from penstock.console.parts import TONES, box, button, chip, confirm, crumb, empty, grow, link, text, title, told
from penstock.console.pipeline_picture import Picture, Shown
from penstock.console.spec_tab import SpecTab
from penstock.console.tables import Column, cell, table
from penstock.console.tap_tab import TapTab
from penstock.console.trigger_words import trigger_url
from penstock.core.visible import visible
from penstock.service.access import Actor
from penstock.service.operations import pipelines
from penstock.service.operations.dead_letters import facets
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_models import LetterQuery
from penstock.service.operations.stages import stage_counts
from penstock.service.trigger_specs import PREFIX

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
_ALL_EVERY: Final = 5
"""Looks after which errors and history are asked for too: they cost more, and change less."""
_COMMANDS: Final[dict[str, Callable[[Desk, Actor, str], object]]] = {
    "paused": pipelines.pause,
    "resumed": pipelines.resume,
    "restarted": pipelines.restart,
    "stopped": pipelines.stop,
}


async def _asked(visit: Visit, name: str, before: Shown | None = None) -> Shown:
    """What changes all the time is asked for; errors and history as they were `before`, where that is given."""
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
    called = (await visit.ask(visit.data.titles)).get(name, name)
    ui.page_title(f"{called} · Penstock")
    shown = await _asked(visit, name)
    head = _Head(visit, name, called)
    with ui.tabs().classes("tabs").props("align=left no-caps dense inline-label") as tabs:
        for tab in _TABS:
            ui.tab(tab)
    opened = (visit.asked("tab") or "").capitalize()
    opened = opened if opened in _TABS else _TABS[0]
    with ui.tab_panels(tabs, value=opened, animated=False).classes("w-full"):
        with ui.tab_panel("Overview").classes("tab-panel"):
            picture = Picture(shown)
        with ui.tab_panel("Errors").classes("tab-panel"):
            errors = _Errors(shown)
        with ui.tab_panel("Live").classes("tab-panel"):
            tap = TapTab(visit, name)
        with ui.tab_panel("Spec").classes("tab-panel"):
            spec = SpecTab(visit, name)
        with ui.tab_panel("History").classes("tab-panel"):
            history = _History(shown)

    async def turned() -> None:
        ui.navigate.history.replace(url(visit.request.url.path, tab=str(tabs.value).lower()))
        if tabs.value == "Spec":
            await spec.opened()
        if tabs.value != "Live":
            tap.stop()

    tabs.on_value_change(told(turned))
    if opened == "Spec":
        await spec.opened()
    head.show(shown)

    looks = itertools.count(1)

    async def look() -> None:
        nonlocal shown
        shown = await _asked(visit, name, shown if next(looks) % _ALL_EVERY else None)
        for each in (head, picture, errors, history):
            each.show(shown)

    head.look = look
    refreshing(look)


class _Head:
    """Name, state and what can be done."""

    def __init__(self, visit: Visit, name: str, called: str) -> None:
        self._visit, self._name, self._called = visit, name, called
        self.look: Callable[[], Awaitable[None]] | None = None
        with box("head"):
            crumb("Pipelines", "/")
            title(called)
            self._chip = chip("starting")
            grow()
            with box("head") as acts:
                self._resume = button("Resume", lambda: self._act("resumed"), "main-act")
                self._pause = button("Pause", lambda: self._act("paused"))
                button("Restart", self._ask_restart)
                self._stop = button("Stop", self._ask_stop)
                button("Offsets…", lambda: open_offsets(self._visit, self._name))
            acts.visible = visit.may("pipelines.operate")
        if called != name:
            with box("head"):
                text(name, "muted small mono")
                link("The trigger that it runs for", trigger_url(name.removeprefix(PREFIX)), "small")
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
        answer = await self._visit.tell(f"{self._called}: {done}", _COMMANDS[done], self._name)
        if answer is not None and self.look is not None:
            await self.look()

    def _ask_restart(self) -> None:
        async def go(_: str | None) -> None:
            await self._act("restarted")

        say = "Every instance leaves the group, lets go of everything, and begins anew. Nothing is lost."
        confirm(f"Restart {self._called}?", say, go, button_label="Restart").open()

    def _ask_stop(self) -> None:
        async def go(_: str | None) -> None:
            await self._act("stopped")

        say = "Every instance finishes what is under way and leaves the group, until somebody resumes it."
        confirm(f"Stop {self._called}?", say, go, button_label="Stop").open()


class _Errors:
    """Errors by what they have in common."""

    def __init__(self, shown: Shown) -> None:
        self._many = text("", "muted")
        with box("stack") as self._none:
            empty("No event of it has failed.", "Events that fail for good are kept as dead letters and grouped here.")
        self._table = table(_ERRORS, [], key="key", label="Errors")
        self.show(shown)

    def show(self, now: Shown) -> None:
        found = now.facets
        self._many.text = f"Of the newest {words.number(found.letters)} dead letters."
        self._many.visible = bool(found.errors) and not found.complete
        self._table.visible, self._none.visible = bool(found.errors), not found.errors
        rows = [
            {
                "error": cell(group.error),
                "error_url": url("/dead-letters", pipeline=now.detail.name, fingerprint=group.fingerprint),
                "error_why": cell(group.error_code),
                "stage": group.stage,
                "letters": group.letters,
                "letters_text": words.number(group.letters),
                "last": group.last_failed_at,
                "last_text": words.ago_of(group.last_failed_at),
                "key": group.fingerprint,
            }
            for group in found.errors
        ]
        if rows != self._table.rows:
            self._table.rows = rows


class _History:
    """What happened to it, the newest first."""

    def __init__(self, shown: Shown) -> None:
        with box("stack") as self._none:
            empty("Nothing has happened to it yet.", "Starts, pauses, gaps, resets and failures are kept here.")
        self._table = table(_HISTORY, [], key="id", label="History")
        self.show(shown)

    def show(self, now: Shown) -> None:
        self._table.visible, self._none.visible = bool(now.history), not now.history
        rows = [
            {
                "id": row.id,
                "at": row.at,
                "at_text": words.moment_of(row.at),
                "kind": row.kind,
                "text": cell(row.text),
                "instance": row.instance or "",
            }
            for row in now.history
        ]
        if rows != self._table.rows:
            self._table.rows = rows
