"""Audit: who changed what, when, and from where."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from penstock.console import words
from penstock.console.frame import Visit, pages, query_of
from penstock.console.parts import box, button, empty, link, text, title
from penstock.console.tables import Column, cell, table
from penstock.service.operations.audit import AuditEntry, AuditQuery, list_audit

_COLUMNS: Final = (
    Column("at", "When"),
    Column("actor", "Who", lead=True),
    Column("action", "Did", "mono"),
    Column("subject", "To", wide=True),
    Column("outcome", "Outcome", "chip"),
    Column("change", "Change", wide=True),
)
_TONES: Final = {"done": "good", "failed": "bad", "begun": "warn"}
_FIELDS: Final = (("actor", "Who"), ("action", "Did"), ("subject", "To"), ("since", "Since (2h, 7d, a time)"))


@pages.page("/audit", "Audit", "/audit")
async def audit(visit: Visit) -> None:
    title("Audit")
    asked = {name: visit.asked(name) for name, _ in _FIELDS}
    page = await visit.ask(list_audit, AuditQuery(**asked), limit=100, after=visit.asked("after"))
    _form(visit, asked)
    if not page.items:
        if any(asked.values()):
            empty("No change is like this.", "Take a filter away to see more.")
        else:
            empty("Nothing has been changed yet.", "Every change made here, through the API or by command is kept.")
        return
    table(_COLUMNS, [_row(entry) for entry in page.items], key="id", label="Changes")
    if page.next is not None:
        link("Older", query_of(visit.request, after=page.next))


def _form(visit: Visit, asked: dict[str, str | None]) -> None:
    def go() -> None:
        given = {name: str(made.value or "") for name, made in fields.items()}
        ui.navigate.to(query_of(visit.request, **given, after=None))

    with box("head"):
        fields = {}
        for name, label in _FIELDS:
            made = ui.input(label, value=asked[name] or "").classes("field").props("outlined dense")
            fields[name] = made.on("keydown.enter", go)
        button("Filter", go)
    fields["actor"].props("data-search")
    text("Words are compared as a whole: pipelines.pause, pipeline/orders.", "muted small")


def _row(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": -entry.id,
        "at_text": words.moment_of(entry.at),
        "actor": cell(entry.actor),
        "actor_why": cell(f"{entry.actor_kind}, {entry.address}" if entry.address else entry.actor_kind),
        "action": entry.action,
        "subject": cell(entry.subject),
        "outcome": entry.outcome,
        "outcome_tone": _TONES[entry.outcome],
        "change": _change(entry),
        "change_why": ", ".join(cell(f"{name}: {value}")[:200] for name, value in entry.data.items()) or None,
    }


def _change(entry: AuditEntry) -> str:
    if entry.before is None and entry.after is None:
        return ""
    before, after = (cell(value)[:200] if value is not None else "—" for value in (entry.before, entry.after))
    return f"{before} → {after}" if before != after else before
