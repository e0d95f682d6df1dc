"""One pipeline: its stages with what each did, its partitions, its errors, its spec and its history."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.data import PipelineFacts
from penstock.console.frame import Visit, pages, refreshing, url
from penstock.console.offsets_dialog import open_offsets
from penstock.console.parts import box, button, card, chip, confirm, empty, facts, figure, link, plain, text, title
from penstock.console.spec_text import Stage, as_yaml, stages_of
from penstock.console.tables import Column, cell, table

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


@pages.page("/pipelines/{name}", "Pipeline", "/")
async def pipeline(visit: Visit) -> None:
    name = visit.path["name"]
    ui.page_title(f"{name} · Penstock")
    shown = await visit.ask(visit.data.pipeline, name)
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
            _spec(shown)
        with ui.tab_panel("History").classes("tab-panel"):
            _history(shown)
    tabs.on_value_change(
        lambda event: ui.navigate.history.replace(url(visit.request.url.path, tab=str(event.value).lower()))
    )
    head.show(shown)

    async def look() -> None:
        now = await visit.ask(visit.data.pipeline, name)
        head.show(now)
        overview.show(now)

    head.look = look
    refreshing(look)


class _Head:
    """Name, state and what can be done."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        self.look: Any = None
        self._state: str | None = None
        with box("head"):
            link("Pipelines", "/", "crumb")
            text("/", "crumb", "span")
            title(name)
            with box("head") as self._chip:
                pass
            with box("grow"):
                pass
            with box("head") as self._acts:
                pass
        self._why = text("", "note warn")

    def show(self, now: PipelineFacts) -> None:
        line = now.line
        self._why.text = line.reason or ""
        self._why.visible = bool(line.reason)
        if line.state == self._state:
            return
        self._state = line.state
        self._chip.clear()
        with self._chip:
            chip(line.state)
        self._acts.clear()
        with self._acts:
            if line.state in ("paused", "failed", "stopped", "stopping"):
                button("Resume", lambda: self._act("resume", "resumed"), "main-act")
            else:
                button("Pause", lambda: self._act("pause", "paused"))
            button("Restart", self._ask_restart)
            if line.state != "stopped":
                button("Stop", self._ask_stop)
            button("Offsets…", lambda: open_offsets(self._visit, self._name))

    async def _act(self, what: str, done: str) -> None:
        await self._visit.tell(f"{self._name}: {done}", self._visit.data.act, self._name, what, by=self._visit.who)
        await self.look()

    def _ask_restart(self) -> None:
        async def go(_: str | None) -> None:
            await self._act("restart", "restarted")

        say = "Every instance leaves the group, lets go of everything, and begins anew. Nothing is lost."
        confirm(f"Restart {self._name}?", say, go, button_label="Restart").open()

    def _ask_stop(self) -> None:
        async def go(_: str | None) -> None:
            await self._act("stop", "stopped")

        say = "Every instance finishes what is under way and leaves the group, until somebody resumes it."
        confirm(f"Stop {self._name}?", say, go, button_label="Stop").open()


class _Overview:
    """Figures, stages and partitions; looked at again and again."""

    def __init__(self, shown: PipelineFacts) -> None:
        with box("figures"):
            self._figures = [figure(name, "")[0] for name, _ in _figures(shown)]
        with card("Stages"), box("stages") as self._stages:
            pass
        with card("Partitions"):
            self._places = table(_PLACES, _places(shown), key="place", label="Partitions")
            self._none = text("No instance owns a partition of it now.", "muted")
        self.show(shown)

    def show(self, now: PipelineFacts) -> None:
        for element, (_, value) in zip(self._figures, _figures(now), strict=True):
            element.text = value
        self._stages.clear()
        with self._stages:
            _stages(now)
        rows = _places(now)
        if rows != self._places.rows:
            self._places.rows = rows
        self._places.visible, self._none.visible = bool(rows), not rows


def _figures(shown: PipelineFacts) -> list[tuple[str, str]]:
    line = shown.line
    p50 = max((row.p50_ms for row in shown.states if row.p50_ms is not None), default=None)
    p99 = max((row.p99_ms for row in shown.states if row.p99_ms is not None), default=None)
    return [
        ("events per second", words.rate(line.pace.rate)),
        ("events waiting", words.short(line.lag)),
        ("latency p50", words.millis(p50)),
        ("latency p99", words.millis(p99)),
        ("of recent events failed", words.share(line.pace.error_share)),
        ("open dead letters", words.number(line.dead_letters)),
    ]


def _stages(shown: PipelineFacts) -> None:
    if shown.spec is None:
        text("Its spec is not known yet: it has not run.", "muted")
        return
    failed = shown.facets.counts.get("stage", {})
    events = sum(row.events for row in shown.states)
    filtered = sum(row.filtered for row in shown.states)
    acted = sum(row.acted for row in shown.states)
    counts = {
        "source": (f"{words.number(events)} read", failed.get("decode", 0)),
        "filter": (f"{words.number(filtered)} filtered", failed.get("filter", 0)),
        "transform": ("", failed.get("transform", 0)),
        "action": (
            f"{words.number(acted)} acted on",
            sum(failed.get(stage, 0) for stage in ("act", "write", "timeout", "crash")),
        ),
    }
    said: set[str] = set()
    for index, stage in enumerate(stages_of(shown.spec)):
        if index:
            text("→", "arrow")
        # Instances count all filters together, so the first one tells for all of them.
        _stage(stage, *(("", 0) if stage.kind in said else counts[stage.kind]))
        said.add(stage.kind)


def _stage(stage: Stage, count: str, fails: int) -> None:
    with box("stage"):
        text(stage.kind, "kind")
        text(stage.what, "what")
        if stage.more:
            text(stage.more, "small muted wrap")
        if count:
            text(count, "count small")
        if fails:
            text(f"{words.number(fails)} dead letters", "fails small")


def _places(shown: PipelineFacts) -> list[dict[str, Any]]:
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
        for place in shown.line.status.partitions
    ]


def _errors(shown: PipelineFacts) -> None:
    name = shown.line.pipeline
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
            "last": -group.last_failed_at,
            "last_text": words.ago(group.last_failed_at / 1000),
            "key": group.fingerprint,
        }
        for group in shown.facets.errors
    ]
    table(_ERRORS, rows, key="key", label="Errors")


def _spec(shown: PipelineFacts) -> None:
    if shown.spec is None:
        empty("Its spec is not known yet.", "It is kept when an instance runs the pipeline for the first time.")
        return
    facts([("File", shown.file), ("Version", shown.version)])
    plain(as_yaml(shown.spec))


def _history(shown: PipelineFacts) -> None:
    if not shown.history:
        empty("Nothing has happened to it yet.", "Starts, pauses, gaps, resets and failures are kept here.")
        return
    rows = [
        {
            "id": row.id,
            "at": -row.at,
            "at_text": words.moment(row.at),
            "kind": row.kind,
            "text": cell(row.text),
            "instance": row.instance or "",
        }
        for row in shown.history
    ]
    table(_HISTORY, rows, key="id", label="History")
