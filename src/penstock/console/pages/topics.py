"""Topics: a bounded look into what is on them, and what each decoder makes of a record."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.bytes_view import raw, shown
from penstock.console.decoders import show_attempts
from penstock.console.frame import Visit, pages, query_of, url, waiting
from penstock.console.parts import (
    asking,
    box,
    button,
    crumb,
    empty,
    facts,
    fold,
    heading,
    plain,
    problem,
    raw_bytes,
    title,
)
from penstock.console.parts import text as said
from penstock.console.tables import Column, cell, table
from penstock.core.errors import ConfigError, PenstockError
from penstock.service.operations import pipelines
from penstock.service.operations import topics as operations
from penstock.service.operations.letter_models import Bytes
from penstock.service.operations.topics import RecordView

_TOPICS: Final = (
    Column("topic", "Topic", "link", lead=True),
    Column("partitions", "Partitions", "number"),
    Column("records", "Records", "number"),
)
_RECORDS: Final = (
    Column("place", "Partition@offset", "mono", lead=True),
    Column("at", "Timestamp"),
    Column("key", "Key", "mono"),
    Column("value", "Value", "mono", wide=True),
    Column("size", "Size", "number"),
    Column("acts", "", "acts"),
)
_LIMITS: Final = (20, 50, 200)


@pages.page("/topics", "Topics", "/topics")
async def topics(visit: Visit) -> None:
    title("Topics")
    pipeline = await _pipeline(visit)
    if pipeline is None:
        return
    async with waiting():
        found = await visit.ask(operations.list_topics, pipeline)
    if not found:
        empty("This cluster has no topics yet.", "`penstock topics create NAME` makes one.")
        return
    rows = [
        {
            "topic": each.topic,
            "topic_url": url("/topics/browse", pipeline=pipeline, topic=each.topic),
            "partitions": each.partitions,
            "records": each.records,
            "records_text": words.number(each.records),
        }
        for each in found
    ]
    table(_TOPICS, rows, key="topic", label="Topics")


async def _pipeline(visit: Visit) -> str | None:
    """The pipeline through whose eyes a cluster is looked into: the one that the address names, else the first."""
    known = [item.name for item in (await visit.ask(pipelines.list_pipelines, limit=1000)).items]
    if not known:
        empty("There is no cluster to look into yet.", "A cluster is known when a pipeline that reads from it has run.")
        return None
    wanted = visit.asked("pipeline")
    if wanted is not None and wanted not in known:
        raise ConfigError(f"there is no pipeline {wanted!r}", received=wanted, allowed=known)
    with box("head"):
        chosen = ui.select(known, value=wanted or known[0], label="As this pipeline reads it")
        chosen.classes("field search").props("outlined dense")
        chosen.on_value_change(lambda event: ui.navigate.to(query_of(visit.request, pipeline=event.value)))
    return wanted or known[0]


@pages.page("/topics/browse", "Topic", "/topics")
async def browse(visit: Visit) -> None:
    topic = visit.asked("topic")
    if topic is None:
        raise ConfigError("which topic?", hint="choose one from the list of topics")
    ui.page_title(f"{topic} · Penstock")
    with box("head"):
        crumb("Topics", "/topics")
        title(topic)
    pipeline = await _pipeline(visit)
    if pipeline is None:
        return
    _form(visit)
    key = visit.asked("key")
    async with waiting():
        page = await visit.ask(
            operations.browse,
            pipeline,
            topic,
            start=visit.asked("start") or "newest",
            key=key,
            partition=_number("partition", visit.asked("partition")),
            limit=_number("limit", visit.asked("limit")) or _LIMITS[0],
        )
    if not page.records:
        nothing = "No record has this key, among those looked at." if key else "There is nothing from there on."
        empty(nothing, "Begin elsewhere, or look at another partition.")
        return
    more = "" if page.complete else " Time was over before all had been read: narrow it down."
    said(f"{len(page.records)} records, newest first; {words.number(page.looked_at)} looked at.{more}", "muted")
    by_place = {f"{record.partition}@{record.offset}": record for record in page.records}

    async def open_record(_: str, place: str) -> None:
        await _open(visit, by_place[place], pipeline)

    table(_RECORDS, [_row(record) for record in page.records], key="place", label="Records", on_act=open_record)


def _number(name: str, written: str | None) -> int | None:
    if written is not None and not written.isdecimal():
        raise ConfigError(f"{name} is no number", received=written)
    return None if written is None else int(written)


def _form(visit: Visit) -> None:
    def field(label: str, name: str, hint: str) -> ui.input:
        made = ui.input(label, value=visit.asked(name) or "", placeholder=hint).classes("field").props("outlined dense")
        made.on("keydown.enter", go)
        return made

    def go() -> None:
        given = {name: str(made.value or "") for name, made in fields.items()}
        ui.navigate.to(query_of(visit.request, **given, limit=limit.value))

    most = _number("limit", visit.asked("limit")) or _LIMITS[0]
    with box("head"):
        fields = {
            "start": field("From", "start", "newest"),
            "partition": field("Partition", "partition", "all"),
            "key": field("Key has", "key", "text").props("data-search"),
        }
        limit = ui.select(sorted({*_LIMITS, most}), value=most, label="At most")
        limit.classes("field").props("outlined dense").style("min-width: 96px")
        button("Look", go, "main-act")
    said("From: newest, earliest, an offset, or a time like 2026-01-31T12:00:00Z.", "muted small")


def _row(record: RecordView) -> dict[str, Any]:
    return {
        "place": f"{record.partition}@{record.offset}",
        "at": -(record.timestamp or 0),
        "at_text": words.moment(record.timestamp),
        "key": _short(record.key, 60),
        "value": _short(record.value, 240),
        "size": record.size,
        "size_text": words.size(record.size),
        "acts": ["Open"],
    }


def _short(given: Bytes | None, most: int) -> str:
    line = cell(shown(given)[: 4 * most])
    return line if len(line) <= most else f"{line[:most]}…"


async def _open(visit: Visit, record: RecordView, pipeline: str) -> None:
    with asking(f"{record.topic}/{record.partition}@{record.offset}") as dialog:
        when = f"{words.moment(record.timestamp)} ({record.timestamp_type})"
        facts([("Key", shown(record.key)), ("Timestamp", when)])
        if record.headers:
            heading("Headers")
            facts([(cell(header.name), cell(shown(header.value))) for header in record.headers])
        heading("Value")
        if record.masked:
            said("Fields of it are masked by a rule of this installation.", "note")
        value = raw(record.value)
        plain(words.text_of(value) or "These bytes are not text.")
        with fold("Hex"):
            raw_bytes(value)
        heading("Decoders")
        with box("steps") as attempts:
            ui.spinner()
        with box("foot"):
            button("Close", dialog.close)
    dialog.open()
    try:
        tried = await visit.ask(
            operations.decoder_report, pipeline, record.topic, partition=record.partition, offset=record.offset
        )
    except PenstockError as error:
        attempts.clear()
        with attempts:
            problem(error)
        return
    attempts.clear()
    with attempts:
        show_attempts(tried)
