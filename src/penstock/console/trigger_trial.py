"""What a trigger would do before it is saved: each step to its cluster, and what its last messages would become."""

from __future__ import annotations

from typing import Any, Final

from penstock.console import words
from penstock.console.parts import box, chip, empty, note, text
from penstock.console.tables import Column, cell, place, table
from penstock.service.connection_test import ConnectionReport, MessagePreview, StepReport

_NAMES: Final = {
    "config": "Settings",
    "dns": "DNS",
    "tcp": "TCP",
    "tls": "TLS",
    "sasl": "SASL",
    "metadata": "Metadata",
    "advertised": "Brokers' own addresses",
    "topic": "Topic",
    "group": "Group",
    "registry": "Registry",
}
_ENDS: Final = {True: ("ok", "good"), False: ("failed", "bad"), None: ("not tried", "rest")}
_MESSAGES: Final = (
    Column("place", "Message", "mono", lead=True),
    Column("outcome", "Becomes", "chip"),
    Column("when", "Time"),
    Column("key", "Key", "mono"),
    Column("body", "Input", "mono", wide=True),
)
_TONES: Final = {"work order": "good", "dead letter": "bad"}
_SHOWN: Final = 300
"""Characters of a body in the list."""


def show_report(report: ConnectionReport) -> None:
    """A line per step."""
    if report.ok:
        note("The cluster can be reached with these settings.")
    else:
        note("It does not work yet: see the first step that failed.", "warn")
    with box("steps"):
        for step in report.steps:
            _step(step)


def _step(step: StepReport) -> None:
    said, tone = _ENDS[step.ok]
    with box("step"):
        with box(""):
            text(_NAMES.get(step.step, step.step))
            text(step.target, "small muted wrap")
        with box(""):
            chip(said, tone)
        with box(""):
            text(step.detail, "wrap")
            if step.hint:
                text(step.hint, "small muted wrap")
            if step.millis:
                text(words.millis(step.millis), "small muted")


def show_messages(found: list[MessagePreview]) -> None:
    """The newest first."""
    if not found:
        empty("There is no message in these topics.", "The settings are right all the same; nothing has come yet.")
        return
    taken = sum(each.outcome == "work order" for each in found)
    text(f"Of the last {len(found)} messages, {taken} would start a run. Nothing was taken in.", "muted")
    table(_MESSAGES, [_row(each) for each in found], key="place", label="What messages would become")


def _row(message: MessagePreview) -> dict[str, Any]:
    body = "masked" if message.masked and message.body is None else words.json_line(message.body)
    return {
        **place(cell(message.topic), message.partition, message.offset),
        "outcome": message.outcome,
        "outcome_tone": _TONES.get(message.outcome, "rest"),
        "outcome_why": cell(message.why) if message.why else None,
        "when": words.moment(message.timestamp),
        "key": cell(message.request.get("key") or "") if isinstance(message.request, dict) else "",
        "body": cell(body)[:_SHOWN],
    }
