"""Notices: what the admins of projects were told of messages that were not stored, and what they will be told."""

from __future__ import annotations

from typing import Any, Final

from penstock.console import words
from penstock.console.frame import Visit, pages, pipeline_url, query_of, refreshing, url
from penstock.console.parts import box, card, empty, link, text, title
from penstock.console.tables import Column, cell, table
from penstock.core.clock import SYSTEM, format_time
from penstock.service.operations.notices import NoticeState, NoticeView, list_notices, pending

_PAGE: Final = 50
_NAMED: Final = 5
"""Messages that a row names."""
_WAITING: Final = (
    Column("trigger", "Trigger", "link", lead=True, wide=True),
    Column("waiting", "Waiting", "link"),
    Column("since", "Since"),
    Column("told", "Last told"),
    Column("next", "Next notice"),
    Column("whom", "To", wide=True),
)
_SENT: Final = (
    Column("at", "When"),
    Column("trigger", "Trigger", "link", lead=True, wide=True),
    Column("messages", "Messages", "number"),
    Column("became", "Told", "chip"),
    Column("whom", "To", wide=True),
    Column("named", "Some of them", "mono", wide=True),
)


@pages.page("/notifications", "Notices", "/notifications")
async def notifications(visit: Visit) -> None:
    title("Notices")
    text(
        "Admins of a project are told of messages that could not be stored: by mail, and by the project's own notify"
        " addresses. What gathers during the embargo is told together. Nothing is lost meanwhile: the messages are dead"
        " letters.",
        "muted",
    )
    states = await visit.ask(pending)
    found = await visit.ask(list_notices, limit=_PAGE, after=visit.asked("after"))
    with card("Waiting"):
        waiting = table(_WAITING, _waiting(states), key="key", label="Waiting")
        none = text("Nothing waits to be told, and no embargo holds.", "muted")
    waiting.visible, none.visible = bool(states), not states
    with card("Sent"):
        if found.items:
            table(_SENT, [_sent(each) for each in found.items], key="id", label="Sent")
        else:
            empty("No notice has gone out.", "Set `smtp.url`, or `notify` in a project's settings, to be told.")
        with box("head"):
            if visit.asked("after"):
                link("Newest", "/notifications")
            if found.next:
                link("Older", query_of(visit.request, after=found.next))

    async def look() -> None:
        rows = _waiting(await visit.ask(pending))
        if rows != waiting.rows:
            waiting.rows = rows
            waiting.visible, none.visible = bool(rows), not rows

    refreshing(look)


def _waiting(states: list[NoticeState]) -> list[dict[str, Any]]:
    now = format_time(SYSTEM.now_ms())
    return [
        {
            "key": each.trigger,
            **_trigger(each),
            "waiting": each.waiting,
            "waiting_text": f"{words.number(each.waiting)} messages",
            "waiting_url": url("/dead-letters", pipeline=each.pipeline) if each.waiting else None,
            "since": each.since or "",
            "since_text": words.moment_of(each.since),
            "told": each.last_told_at or "",
            "told_text": words.moment_of(each.last_told_at) if each.last_told_at else "never",
            "next": each.embargo_until or "",
            "next_text": _next(each, now),
            "whom": _whom(each.recipients if each.mails else [], each.services),
        }
        for each in states
    ]


def _next(state: NoticeState, now: str) -> str:
    if state.embargo_until is not None and state.embargo_until > now:
        return f"not before {words.moment_of(state.embargo_until)}"
    return "within seconds" if state.waiting else "at the next failure"


def _sent(notice: NoticeView) -> dict[str, Any]:
    named = notice.named[:_NAMED]
    more = notice.messages - len(named)
    return {
        "id": notice.id,
        "at": notice.at,
        "at_text": words.moment_of(notice.at),
        **_trigger(notice),
        "messages": notice.messages,
        "messages_text": words.number(notice.messages),
        "became": "told" if notice.told else "nobody",
        "became_tone": ("warn" if notice.failures else "good") if notice.told else "bad",
        "became_why": cell("; ".join(notice.failures)),
        "whom": _whom(notice.recipients, notice.services),
        "named": cell(", ".join(named)) + (f" and {words.number(more)} more" if more > 0 else ""),
    }


def _trigger(about: NoticeState | NoticeView) -> dict[str, Any]:
    return {
        "trigger": f"{about.project_name} / {about.workflow_name} / {about.trigger_name}",
        "trigger_text": cell(f"{about.workflow_name} / {about.trigger_name}"),
        "trigger_url": pipeline_url(about.pipeline),
        "trigger_why": cell(about.project_name),
    }


def _whom(recipients: list[str], services: list[str] | None) -> str:
    """Addresses by mail, and the kinds of the others."""
    others = ["addresses that cannot be read here"] if services is None else services
    return cell(", ".join([*recipients, *others]) or "nobody")
