"""One dead letter: why it failed, its value as text and as bytes; replayed as it is, or with another value."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.decoders import show_decoders
from penstock.console.edit_dialog import open_edit
from penstock.console.frame import Visit, pages, pipeline_url, url
from penstock.console.letter_filters import PATH
from penstock.console.parts import box, button, card, chip, confirm, facts, link, plain, raw_bytes, text, title
from penstock.console.tables import cell
from penstock.core.dead_letter import DeadLetter
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import TIMESTAMP_TYPES, Record
from penstock.store import StoredDeadLetter

_OPEN: Final = ("new", "parked")


@pages.page(f"{PATH}/{{letter}}", "Dead letter", PATH)
async def dead_letter(visit: Visit) -> None:
    written = visit.path["letter"]
    if not written.isdecimal():
        raise ConfigError("a dead letter is named by its number", received=written)
    found = await visit.ask(visit.data.letter, int(written))
    ui.page_title(f"Dead letter {found.id} · Penstock")
    _head(visit, found)
    letter, failure = found.letter, found.letter.failure
    with box("note warn") as why:
        why.props("role=note")
        text(f"{failure.stage} failed with {failure.error_code}", "small")
        text(failure.error, "wrap")
    with box("split"):
        with card("Event"):
            facts(_where(found))
            link("All with this error", url(PATH, pipeline=letter.pipeline, fingerprint=failure.fingerprint))
            link(f"Pipeline {letter.pipeline}", pipeline_url(letter.pipeline))
        with card("Headers"):
            _headers(letter)
    with card("Value"):
        await _value(visit, letter)
    with box("split"):
        with card("Stack"):
            plain(failure.traceback or "There is none: the error says all.", "stack")
        with card("What happened to it"):
            _steps(found)


def _head(visit: Visit, found: StoredDeadLetter) -> None:
    async def replay() -> None:
        job = await visit.tell(None, visit.data.replay, [found.id], by=visit.who, what=f"dead letter {found.id}")
        if job is not None:
            ui.navigate.to(f"/replays/{job.id}")

    def ask_discard() -> None:
        async def go(reason: str | None) -> None:
            done = await visit.tell("discarded", visit.data.discard, [found.id], by=visit.who, reason=reason or "")
            if done is not None:
                ui.navigate.reload()

        say = "Its event is not worked on again; the letter stays here as discarded."
        confirm("Discard this dead letter?", say, go, reason=True, button_label="Discard").open()

    with box("head"):
        link("Dead letters", PATH, "crumb")
        text("/", "crumb", "span")
        title(f"{found.row.topic}/{found.row.partition}@{found.row.offset}")
        chip(found.row.status)
        with box("grow"):
            pass
        if found.row.status != "replaying":
            button("Replay", replay, "main-act")
            button("Edit and replay…", lambda: open_edit(visit, found))
        if found.row.status in _OPEN:
            button("Discard…", ask_discard, "danger")


def _where(found: StoredDeadLetter) -> list[tuple[str, object]]:
    letter, failure = found.letter, found.letter.failure
    kind = TIMESTAMP_TYPES[letter.timestamp_type] if 0 <= letter.timestamp_type < 3 else "none"
    return [
        ("Number", found.id),
        ("Group", letter.group),
        ("Key", "null" if letter.key is None else words.text_of(letter.key) or letter.key.hex(" ")),
        ("Timestamp", f"{words.moment(letter.timestamp)} ({kind})"),
        ("Attempts", f"{failure.attempts}, and {found.replays} failed replays"),
        ("First failed", words.moment(failure.first_failed_at)),
        ("Last failed", words.moment(failure.last_failed_at)),
        ("Error class", failure.error_class),
        ("Schema id", failure.schema_id),
        ("Spec version", letter.spec_version),
    ]


def _headers(letter: DeadLetter) -> None:
    if not letter.headers:
        text("There are none.", "muted")
    with box("facts"):
        for name, value in letter.headers:
            text(cell(name), "name mono wrap")
            shown = "null" if value is None else words.text_of(value)
            text(cell(shown) if shown is not None else f"{value.hex(' ') if value else ''} (bytes)", "mono wrap")


async def _value(visit: Visit, letter: DeadLetter) -> None:
    value = letter.value
    text("null (a tombstone)" if value is None else words.size(len(value)), "muted small")
    with ui.tabs().classes("tabs").props("align=left no-caps dense") as tabs:
        for tab in ("Text", "As the stage saw it", "Hex", "Decoders"):
            ui.tab(tab)
    with ui.tab_panels(tabs, value="Text" if words.text_of(value) is not None else "Hex", animated=False):
        with ui.tab_panel("Text").classes("tab-panel"):
            plain(words.text_of(value) or "These bytes are not text; see them as hex, or what decoders make of them.")
        with ui.tab_panel("As the stage saw it").classes("tab-panel"):
            seen = letter.failure.value_seen
            plain(words.text_of(seen) or "" if seen is not None else "Not known: it failed before it was decoded.")
        with ui.tab_panel("Hex").classes("tab-panel"):
            raw_bytes(value)
        with ui.tab_panel("Decoders").classes("tab-panel") as panel:
            pass
    record = Record(letter.topic, letter.partition, letter.offset, letter.key, value, letter.headers, letter.timestamp)
    looked: list[bool] = []

    async def decoders() -> None:
        if tabs.value == "Decoders" and not looked:
            looked.append(True)
            try:
                spec = await visit.ask(visit.data.spec, letter.pipeline)
            except PenstockError:
                spec = None
            with panel:
                await show_decoders(visit, record, spec)

    tabs.on_value_change(decoders)


def _steps(found: StoredDeadLetter) -> None:
    with box("steps"):
        for step in reversed(found.history):
            with box("step"):
                text(words.moment(step.at), "small muted")
                text(step.kind, "small")
                with box("wrap"):
                    text(step.text, "wrap")
                    if step.by:
                        text(f"by {step.by}", "small muted wrap")
