"""One pipeline: its stages with what each did, its partitions, its errors, its spec and its history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.offsets_dialog import open_offsets
from penstock.console.parts import (
    TONES,
    box,
    button,
    card,
    changed_lines,
    chip,
    confirm,
    empty,
    facts,
    figure,
    link,
    plain,
    problem,
    text,
    title,
)
from penstock.console.rates import Pace
from penstock.console.spec_text import Stage, stages_of
from penstock.console.tables import Column, cell, table
from penstock.core.errors import PenstockError
from penstock.core.visible import visible
from penstock.service.access import Actor
from penstock.service.operations import pipelines, versions
from penstock.service.operations.dead_letters import facets
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_models import FacetsView, LetterQuery
from penstock.service.operations.models import HistoryEntry, PipelineDetail
from penstock.service.operations.stages import StageCounts, stage_counts

_PLACES: Final = (
    Column("place", "Partition", lead=True),
    Column("committed", "Committed", "number"),
    Column("end", "End", "number"),
    Column("lag", "Lag", "number"),
    Column("owner", "Owner", "mono"),
)
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


_COMMANDS: Final[dict[str, Callable[[Desk, Actor, str], object]]] = {
    "paused": pipelines.pause,
    "resumed": pipelines.resume,
    "restarted": pipelines.restart,
    "stopped": pipelines.stop,
}


@dataclass(frozen=True, slots=True)
class _Shown:
    """All that the page shows."""

    detail: PipelineDetail
    counts: StageCounts
    facets: FacetsView
    history: list[HistoryEntry]
    pace: Pace


async def _asked(visit: Visit, name: str, before: _Shown | None = None) -> _Shown:
    """What changes all the time is asked for again; errors and history are as they were when the page was opened."""
    return _Shown(
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
        for tab in ("Overview", "Errors", "Spec", "History"):
            ui.tab(tab)
    opened = (visit.asked("tab") or "overview").capitalize()
    with ui.tab_panels(tabs, value=opened, animated=False).classes("w-full"):
        with ui.tab_panel("Overview").classes("tab-panel"):
            overview = _Overview(shown)
        with ui.tab_panel("Errors").classes("tab-panel"):
            _errors(shown)
        with ui.tab_panel("Spec").classes("tab-panel"):
            await _spec(visit, shown)
        with ui.tab_panel("History").classes("tab-panel"):
            _history(shown)
    tabs.on_value_change(
        lambda event: ui.navigate.history.replace(url(visit.request.url.path, tab=str(event.value).lower()))
    )
    head.show(shown)

    async def look() -> None:
        now = await _asked(visit, name, shown)
        head.show(now)
        overview.show(now)

    head.look = look
    refreshing(look)


class _Head:
    """Name, state and what can be done."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        self.look: Callable[[], Awaitable[None]] | None = None
        with box("head"):
            link("Pipelines", "/", "crumb")
            text("/", "crumb", "span")
            title(name)
            self._chip = chip("starting")
            with box("grow"):
                pass
            with box("head") as acts:
                self._resume = button("Resume", lambda: self._act("resumed"), "main-act")
                self._pause = button("Pause", lambda: self._act("paused"))
                button("Restart", self._ask_restart)
                self._stop = button("Stop", self._ask_stop)
                button("Offsets…", lambda: open_offsets(self._visit, self._name))
            acts.visible = visit.may("pipelines.operate")
        self._why = text("", "note warn")

    def show(self, now: _Shown) -> None:
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


class _Overview:
    """Figures, stages and partitions; looked at again and again."""

    def __init__(self, shown: _Shown) -> None:
        self._drawn: StageCounts | None = None
        with box("figures"):
            self._figures = [figure(name, "")[0] for name, _ in _figures(shown)]
        with card("Stages"), box("stages") as self._stages:
            pass
        with card("Partitions"):
            self._places = table(_PLACES, _places(shown), key="place", label="Partitions")
            self._none = text("No instance owns a partition of it now.", "muted")
        self.show(shown)

    def show(self, now: _Shown) -> None:
        for element, (_, value) in zip(self._figures, _figures(now), strict=True):
            element.text = value
        if now.counts != self._drawn:
            self._drawn = now.counts
            self._stages.clear()
            with self._stages:
                _stages(now)
        rows = _places(now)
        if rows != self._places.rows:
            self._places.rows = rows
        self._places.visible, self._none.visible = bool(rows), not rows


def _figures(shown: _Shown) -> list[tuple[str, str]]:
    return [
        ("events per second", words.rate(shown.pace.rate)),
        ("events waiting", words.short(shown.detail.lag)),
        ("latency p50", words.millis(shown.counts.p50_ms)),
        ("latency p99", words.millis(shown.counts.p99_ms)),
        ("of recent events failed", words.share(shown.pace.error_share)),
        ("open dead letters", words.number(shown.detail.dead_letters)),
    ]


def _stages(shown: _Shown) -> None:
    if shown.detail.spec is None:
        text("Its spec is not known yet: it has not run.", "muted")
        return
    failed = shown.facets.counts.get("stage", {})
    counts = {
        "source": (f"{words.number(shown.counts.read)} read", _pace(shown, "decode"), failed.get("decode", 0)),
        "filter": (f"{words.number(shown.counts.filtered)} filtered", _pace(shown, "filter"), failed.get("filter", 0)),
        "transform": ("", _pace(shown, "transform"), failed.get("transform", 0)),
        "action": (
            f"{words.number(shown.counts.acted)} acted on",
            _pace(shown, "act") or _pace(shown, "write"),
            sum(failed.get(stage, 0) for stage in ("act", "write", "timeout", "crash")),
        ),
    }
    said: set[str] = set()
    for index, stage in enumerate(stages_of(shown.detail.spec)):
        if index:
            text("→", "arrow")
        # Instances count all filters together, so the first one tells for all of them.
        _stage(stage, *(("", "", 0) if stage.kind in said else counts[stage.kind]))
        said.add(stage.kind)


def _pace(shown: _Shown, stage: str) -> str:
    """How long the stage takes per event, where that is known."""
    times = shown.counts.times.get(stage)
    if times is None or times.p50_ms is None:
        return ""
    return f"p50 {words.millis(times.p50_ms)}, p99 {words.millis(times.p99_ms)}"


def _stage(stage: Stage, count: str, pace: str, fails: int) -> None:
    with box("stage"):
        text(stage.kind, "kind")
        text(stage.what, "what")
        if stage.more:
            text(stage.more, "small muted wrap")
        if count:
            text(count, "count small")
        if pace:
            text(pace, "small muted")
        if fails:
            text(f"{words.number(fails)} dead letters", "fails small")


def _places(shown: _Shown) -> list[dict[str, Any]]:
    return [
        {
            "place": f"{place.topic}/{place.partition}",
            "committed": place.committed,
            "committed_text": words.number(place.committed),
            "end": place.end,
            "end_text": words.number(place.end),
            "lag": place.lag,
            "lag_text": words.number(place.lag),
            "owner": place.owner or "nobody",
        }
        for place in shown.detail.places
    ]


def _errors(shown: _Shown) -> None:
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


async def _spec(visit: Visit, shown: _Shown) -> None:
    if shown.detail.spec is None:
        empty("Its spec is not known yet.", "It is kept when an instance runs the pipeline for the first time.")
        return
    name = shown.detail.name
    facts([("File", shown.detail.file), ("Version", shown.detail.version)])
    known = await visit.ask(versions.versions, name)
    older = {each.version: f"{each.version}, of {words.moment_of(each.saved_at)}" for each in known if not each.current}
    if older:
        chosen = ui.select(older, label="Compare with an earlier version", clearable=True)
        chosen.classes("field search").props("outlined dense")
        with box("changes") as changes:
            pass

        async def compare() -> None:
            changes.clear()
            if chosen.value is None:
                return
            try:
                found = await visit.ask(versions.diff, name, str(chosen.value), "running")
            except PenstockError as error:
                with changes:
                    problem(error)
                return
            with changes:
                changed_lines(found.diff.splitlines())

        chosen.on_value_change(compare)
    plain(versions.as_yaml(shown.detail.spec))


def _history(shown: _Shown) -> None:
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
