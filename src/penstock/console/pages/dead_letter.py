"""One dead letter: why it failed, its value as text and as bytes; replayed as it is, or with another value."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from penstock.console import words
from penstock.console.bytes_view import raw, shown
from penstock.console.decoders import show_attempts
from penstock.console.edit_dialog import open_edit
from penstock.console.frame import Visit, pages, pipeline_url, query_of, url
from penstock.console.letter_filters import PATH
from penstock.console.parts import (
    box,
    button,
    card,
    chip,
    confirm,
    crumb,
    facts,
    grow,
    link,
    plain,
    problem,
    raw_bytes,
    text,
    title,
)
from penstock.console.tables import cell
from penstock.core.errors import ConfigError, PenstockError
from penstock.service.operations import dead_letters as operations
from penstock.service.operations.letter_decoding import decode_letter
from penstock.service.operations.letter_models import LetterChoice, LetterDetail

_OPEN: Final = ("new", "parked")


@pages.page(f"{PATH}/{{letter}}", "Dead letter", PATH)
async def dead_letter(visit: Visit) -> None:
    written = visit.path["letter"]
    if not written.isdecimal():
        raise ConfigError("a dead letter is named by its number", received=written)
    letter = await visit.ask(operations.get_letter, int(written), reveal=visit.asked("reveal") is not None)
    ui.page_title(f"Dead letter {letter.id} · Penstock")
    _head(visit, letter)
    with box("note warn") as why:
        why.props("role=note")
        text(f"Failed in the stage {letter.stage}, as {letter.error_class.rpartition('.')[2]}", "small")
        text(letter.error, "wrap")
    with box("split"):
        with card("Event"):
            facts(_where(letter))
            link("All with this error", url(PATH, pipeline=letter.pipeline, fingerprint=letter.fingerprint))
            link(f"Pipeline {letter.pipeline}", pipeline_url(letter.pipeline))
        with card("Headers"):
            _headers(letter)
    with card("Value"):
        _value(visit, letter)
    with box("split"):
        with card("Stack"):
            plain(letter.traceback or "There is none: the error says all.", "stack")
        with card("What happened to it"):
            _steps(letter)


def _head(visit: Visit, letter: LetterDetail) -> None:
    choice = LetterChoice(ids=[letter.id])

    async def replay() -> None:
        job = await visit.tell(None, operations.replay, choice)
        if job is not None:
            ui.navigate.to(f"/jobs/{job.id}")

    def ask_discard() -> None:
        async def go(reason: str | None) -> None:
            job = await visit.tell(None, operations.discard, choice, reason or "")
            if job is not None:
                ui.navigate.to(f"/jobs/{job.id}")

        say = "Its event is not worked on again; the letter stays here as discarded."
        confirm("Discard this dead letter?", say, go, reason=True, button_label="Discard").open()

    with box("head"):
        crumb("Dead letters", PATH)
        title(f"{letter.topic}/{letter.partition}@{letter.offset}")
        chip(letter.status)
        grow()
        if not visit.may("dead_letters.operate"):
            return
        if letter.status != "replaying":
            button("Replay", replay, "main-act")
            button("Edit and replay…", lambda: open_edit(visit, letter)).enabled = not letter.masked
        if letter.status in _OPEN:
            button("Discard…", ask_discard, "danger")


def _where(letter: LetterDetail) -> list[tuple[str, object]]:
    return [
        ("Number", letter.id),
        ("Group", letter.group),
        ("Key", shown(letter.key)),
        ("Timestamp", f"{words.moment(letter.timestamp)} ({letter.timestamp_type})"),
        ("Attempts", f"{letter.attempts}, and {letter.replays} failed replays"),
        ("First failed", words.moment_of(letter.first_failed_at)),
        ("Last failed", words.moment_of(letter.last_failed_at)),
        ("Error class", letter.error_class),
        ("Schema id", letter.schema_id),
        ("Spec version", letter.spec_version),
    ]


def _headers(letter: LetterDetail) -> None:
    if not letter.headers:
        text("There are none.", "muted")
    with box("facts"):
        for header in letter.headers:
            text(cell(header.name), "name mono wrap")
            text(cell(shown(header.value)), "mono wrap")


def _value(visit: Visit, letter: LetterDetail) -> None:
    value = raw(letter.value)
    if letter.masked:
        with box("note"):
            text("Fields of it are masked by a rule of this installation; it cannot be edited like this.")
            if visit.may("events.reveal"):
                link("Reveal it (this is written down)", query_of(visit.request, reveal=1))
    text("null (a tombstone)" if value is None else words.size(len(value)), "muted small")
    as_json, as_text = words.pretty_of(value), words.text_of(value)
    first = "JSON" if as_json is not None else "Text" if as_text is not None else "Hex"
    with ui.tabs().classes("tabs").props("align=left no-caps dense") as tabs:
        for tab in (*(["JSON"] if as_json is not None else []), "Text", "As the stage saw it", "Hex", "Decoders"):
            ui.tab(tab)
    with ui.tab_panels(tabs, value=first, animated=False).classes("w-full"):
        if as_json is not None:
            with ui.tab_panel("JSON").classes("tab-panel"):
                plain(as_json)
        with ui.tab_panel("Text").classes("tab-panel"):
            plain(as_text or "These bytes are not text; see them as hex, or what decoders make of them.")
        with ui.tab_panel("As the stage saw it").classes("tab-panel"):
            seen = letter.value_seen
            plain("Not known: it failed before it was decoded." if seen is None else words.text_of(raw(seen)) or "")
        with ui.tab_panel("Hex").classes("tab-panel"):
            raw_bytes(value)
        with ui.tab_panel("Decoders").classes("tab-panel") as panel:
            pass
    looked: list[bool] = []

    async def decoders() -> None:
        if tabs.value == "Decoders" and not looked:
            looked.append(True)
            with panel:
                try:
                    show_attempts(await visit.ask(decode_letter, letter.id))
                except PenstockError as error:
                    problem(error)

    tabs.on_value_change(decoders)


def _steps(letter: LetterDetail) -> None:
    with box("steps"):
        for step in reversed(letter.history):
            with box("step"):
                text(words.moment_of(step.at), "small muted")
                text(step.kind, "small")
                with box("wrap"):
                    text(step.text, "wrap")
                    if step.by:
                        text(f"by {step.by}", "small muted wrap")
