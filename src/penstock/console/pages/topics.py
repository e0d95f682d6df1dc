"""Topics: a bounded look into what is on them, and what each decoder makes of a record."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.config.spec import PipelineSpec
from penstock.console import words
from penstock.console.decoders import show_decoders
from penstock.console.frame import Visit, pages, query_of, url
from penstock.console.parts import (
    asking,
    box,
    button,
    empty,
    facts,
    heading,
    link,
    plain,
    problem,
    raw_bytes,
    text,
    title,
)
from penstock.console.tables import Column, cell, table
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.event import TIMESTAMP_TYPES, Record

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
    spec = await _spec(visit)
    if spec is None:
        return
    found = await visit.ask(visit.data.topics, spec)
    if not found:
        empty("This cluster has no topics yet.", "`penstock topics create NAME` makes one.")
        return
    rows = [
        {
            "topic": each.topic,
            "topic_url": url("/topics/browse", pipeline=spec.name, topic=each.topic),
            "partitions": each.partitions,
            "records": each.records,
            "records_text": words.number(each.records),
        }
        for each in found
    ]
    table(_TOPICS, rows, key="topic", label="Topics")


async def _spec(visit: Visit) -> PipelineSpec | None:
    """The pipeline whose cluster is looked into: the one that the address names, else the first."""
    known = await visit.ask(visit.data.sources)
    if not known:
        empty("There is no cluster to look into yet.", "A cluster is known when a pipeline that reads from it has run.")
        return None
    wanted = visit.asked("pipeline")
    spec = next((each for each in known if each.name == wanted), None)
    if wanted is not None and spec is None:
        raise ConfigError(f"there is no pipeline {wanted!r}", received=wanted, allowed=[each.name for each in known])
    spec = spec or known[0]
    with box("head"):
        names = {each.name: f"{each.name} ({each.source.config.connection.bootstrap})" for each in known}
        chosen = ui.select(names, value=spec.name, label="As this pipeline reads it")
        chosen.classes("field search").props("outlined dense")
        chosen.on_value_change(lambda event: ui.navigate.to(query_of(visit.request, pipeline=event.value)))
    return spec


@pages.page("/topics/browse", "Topic", "/topics")
async def browse(visit: Visit) -> None:
    topic = visit.asked("topic")
    if topic is None:
        raise ConfigError("which topic?", hint="choose one from the list of topics")
    ui.page_title(f"{topic} · Penstock")
    with box("head"):
        link("Topics", "/topics", "crumb")
        text("/", "crumb", "span")
        title(topic)
    spec = await _spec(visit)
    if spec is None:
        return
    _form(visit)
    partition, limit = visit.asked("partition"), visit.asked("limit") or "50"
    asked: dict[str, Any] = {
        "start": visit.asked("start") or "newest",
        "key": visit.asked("key"),
        "partition": _number("partition", partition),
        "limit": _number("limit", limit),
    }
    page = await visit.ask(visit.data.browse, spec, topic, **asked)
    if not page.records:
        say = "No record has this key, among those looked at." if asked["key"] else "There is nothing from there on."
        empty(say, "Begin elsewhere, or look at another partition.")
        return
    more = "" if page.ended else " Time was over before all had been read: narrow it down."
    text(f"{len(page.records)} records, newest first; {words.number(page.looked_at)} looked at.{more}", "muted")
    by_place = {f"{record.partition()}@{record.offset()}": record for record in page.records}

    async def open_record(_: str, place: str) -> None:
        await _open(visit, by_place[place], spec)

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

    with box("head"):
        fields = {
            "start": field("From", "start", "newest"),
            "partition": field("Partition", "partition", "all"),
            "key": field("Key has", "key", "text").props("data-search"),
        }
        limit = ui.select(list(_LIMITS), value=50, label="At most").classes("field").props("outlined dense")
        button("Look", go, "main-act")
    text("From: newest, earliest, an offset, or a time like 2026-01-31T12:00:00Z.", "muted small")


def _row(record: Record) -> dict[str, Any]:
    value = record.value()
    return {
        "place": f"{record.partition()}@{record.offset()}",
        "at": -record.timestamp()[1],
        "at_text": words.moment(record.timestamp()[1]),
        "key": _short(record.key(), 60),
        "value": _short(value, 240),
        "size": 0 if value is None else len(value),
        "size_text": words.size(len(value or b"")),
        "acts": ["Open"],
    }


def _short(raw: bytes | None, most: int) -> str:
    if raw is None:
        return "null"
    shown = words.text_of(raw[: 4 * most])
    shown = cell(shown) if shown is not None else raw[: most // 3].hex(" ")
    return shown if len(shown) <= most else f"{shown[:most]}…"


async def _open(visit: Visit, record: Record, spec: PipelineSpec) -> None:
    with asking(f"{record.topic()}/{record.partition()}@{record.offset()}") as dialog:
        kind, millis = record.timestamp()
        key = record.key()
        shown_key = "null" if key is None else words.text_of(key) or key.hex(" ")
        facts([("Key", shown_key), ("Timestamp", f"{words.moment(millis)} ({TIMESTAMP_TYPES[kind]})")])
        for name, value in record.headers() or []:
            facts([(cell(name), "null" if value is None else words.text_of(value) or value.hex(" "))])
        heading("Value")
        shown = words.text_of(record.value())
        if shown is not None:
            plain(shown)
        with ui.expansion("Hex"):
            raw_bytes(record.value())
        heading("Decoders")
        try:
            await show_decoders(visit, record, spec)
        except PenstockError as error:
            problem(error)
        with box("foot"):
            button("Close", dialog.close)
    dialog.open()
