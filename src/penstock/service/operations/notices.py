"""Notices: what the admins of projects were told of messages that were not stored, and what waits to be told."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pydantic import Field

from penstock.config.trigger_environment import TriggerDefaults
from penstock.core.clock import format_time
from penstock.core.errors import PenstockError
from penstock.service.access import Actor, allows, require_somewhere
from penstock.service.notice_record import NOT_TOLD, TOLD, addresses_of, kind_of
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.secrets import SecretBox
from penstock.service.trigger_specs import pipeline_name
from penstock.store import HistoryRow
from penstock.workflows.notice_board import Notice, NoticeBoard


class NoticeAbout(View):
    """Whose messages a notice is about."""

    trigger: str
    """Its id."""
    trigger_name: str
    workflow: str
    """Its id."""
    workflow_name: str
    project: str
    """Its id."""
    project_name: str
    pipeline: str
    """The pipeline that the trigger runs as; its dead letters hold the messages."""


class NoticeView(NoticeAbout):
    """A notice that went out, or that nobody could be found for."""

    id: int
    at: str
    told: bool
    """False: the project has no admins with mail, and no addresses of its own."""
    messages: int
    """How many were not stored since the notice before: one notice stands for all of them."""
    since: str | None = None
    until: str | None = None
    named: list[str] = Field(default_factory=list)
    """Some of the messages, as topic/partition@offset."""
    recipients: list[str] = Field(default_factory=list)
    """E-mail addresses that it went to."""
    services: list[str] = Field(default_factory=list)
    """Kinds of other addresses that it went to; the addresses themselves are secrets."""
    failures: list[str] = Field(default_factory=list)
    """Why others were not reached."""


class NoticeState(NoticeAbout):
    """What has gathered for a trigger's next notice, and when that may go out."""

    waiting: int = 0
    """Messages that nobody was told of yet."""
    since: str | None = None
    named: list[str] = Field(default_factory=list)
    last_told_at: str | None = None
    embargo_until: str | None = None
    """No notice goes out before; null: the next one goes at once."""
    recipients: list[str] = Field(default_factory=list)
    """Who would get it by mail now."""
    services: list[str] | None = None
    """Kinds of other addresses that would get it; null: this process cannot read them."""
    mails: bool = True
    """False: no mail server is configured."""


def list_notices(
    desk: Desk, actor: Actor, *, project: str | None = None, limit: int = 100, after: str | None = None
) -> Page[NoticeView]:
    """Those that went out, newest first."""
    checked_limit(limit)
    place = place_of(after, int)
    known = {pipeline_name(notice.trigger): notice for notice in _visible(desk, actor, project)}
    before = place[0] if place else None
    rows = desk.store.pipelines.notes(sorted(known), (TOLD, NOT_TOLD), limit=limit + 1, before=before)
    views = [_view(row, known[row.pipeline]) for row in rows[:limit]]
    return Page(items=views, next=cursor(rows[limit - 1].id) if len(rows) > limit else None)


def pending(desk: Desk, actor: Actor, *, project: str | None = None) -> list[NoticeState]:
    """Triggers whose admins were told of something, or will be."""
    embargo = int(TriggerDefaults.of(os.environ).embargo_seconds * 1_000)
    found = [notice for notice in _visible(desk, actor, project) if notice.gathered or notice.before is not None]
    return [_state(desk, notice, embargo) for notice in found]


def _visible(desk: Desk, actor: Actor, project: str | None) -> Iterable[Notice]:
    require_somewhere(actor, "notices.view")
    for notice in NoticeBoard(desk.store.database).all():
        if allows(actor, "notices.view", notice.project) and project in (None, notice.project):
            yield notice


def _about(notice: Notice) -> dict[str, str]:
    return {
        "trigger": notice.trigger,
        "trigger_name": notice.trigger_name,
        "workflow": notice.workflow,
        "workflow_name": notice.workflow_name,
        "project": notice.project,
        "project_name": notice.project_name,
        "pipeline": pipeline_name(notice.trigger),
    }


def _view(row: HistoryRow, notice: Notice) -> NoticeView:
    data = row.data
    return NoticeView(
        **_about(notice),
        id=row.id,
        at=format_time(row.at),
        told=row.kind == TOLD,
        messages=data.get("count", 0),
        since=_time(data.get("since")),
        until=_time(data.get("until")),
        named=data.get("messages", []),
        recipients=data.get("recipients", []),
        services=data.get("services", []),
        failures=data.get("failures", []),
    )


def _state(desk: Desk, notice: Notice, embargo: int) -> NoticeState:
    gathered = notice.gathered
    told = None if notice.before is None else notice.before // 1_000
    return NoticeState(
        **_about(notice),
        waiting=gathered.get("count", 0),
        since=_time(gathered.get("since")),
        named=gathered.get("messages", []),
        last_told_at=None if told is None else format_time(told),
        embargo_until=None if told is None else format_time(told + embargo),
        recipients=list(notice.recipients),
        services=_services(desk, notice),
        mails=bool(desk.settings.smtp.url),
    )


def _services(desk: Desk, notice: Notice) -> list[str] | None:
    if not notice.settings.get("notify"):
        return []
    try:
        project = SecretBox.of(desk.store, desk.settings).resolved(notice.settings)
    except PenstockError:
        return None  # their key is another machine's
    return [kind_of(address) for address in addresses_of(project.value)]


def _time(micros: Any) -> str | None:
    return None if micros is None else format_time(int(micros) // 1_000)
