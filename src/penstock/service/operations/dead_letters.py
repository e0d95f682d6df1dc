"""Dead letters: looked into, replayed as they are or with another value, and discarded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from penstock.core.clock import SYSTEM, format_time
from penstock.core.errors import ConfigError
from penstock.core.secrets import MASK
from penstock.service.access import Actor, NotFound, allows, require, require_somewhere
from penstock.service.audit import audited
from penstock.service.dead_letters import count_discardable, show_dead_letter
from penstock.service.discard_jobs import DiscardWork
from penstock.service.letter_job_records import find_job, job_name, list_jobs
from penstock.service.operations.desk import Desk
from penstock.service.operations.letter_masking import masked, may_search, told
from penstock.service.operations.letter_models import (
    ErrorGroupView,
    FacetsView,
    JobView,
    LetterChoice,
    LetterDetail,
    LetterItem,
    LetterQuery,
    PlanView,
)
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.replay import Edit
from penstock.store import DeadLetterCursor, DeadLetterFilter, LetterJobRow, Which

_SHOWN_IDS: Final = 20


def facets(desk: Desk, actor: Actor, query: LetterQuery) -> FacetsView:
    """How the letters that a query leaves spread over pipelines, topics, stages and errors."""
    found = desk.store.dead_letters.facets(_seen(desk, actor, query))
    said = told(desk, [(group.letter_id, group.error) for group in found.errors])
    errors = [
        ErrorGroupView(
            **group._asdict() | {"last_failed_at": format_time(group.last_failed_at), "error": said[group.letter_id]}
        )
        for group in found.errors
    ]
    return FacetsView(letters=found.letters, complete=found.complete, counts=found.counts, errors=errors)


def list_letters(
    desk: Desk, actor: Actor, query: LetterQuery, *, limit: int = 100, after: str | None = None
) -> Page[LetterItem]:
    """Newest first. A page may have fewer, or none, and go on: a search that would take long ends after a moment."""
    which = _seen(desk, actor, query)
    place = place_of(after, int, int, bool)
    before = DeadLetterCursor(*place) if place else None
    page = desk.store.dead_letters.page(which, limit=checked_limit(limit), before=before)
    said = told(desk, [(row.id, row.error) for row in page.rows])
    items = [LetterItem.of(row).model_copy(update={"error": said[row.id]}) for row in page.rows]
    return Page(items=items, next=cursor(*page.next) if page.next else None)


def get_letter(desk: Desk, actor: Actor, letter_id: int, *, reveal: bool = False) -> LetterDetail:
    """One with its bytes and history; `reveal` shows an admin what rules mask, and is written down."""
    data = _letter(desk, actor, letter_id)
    topic, project = data["topic"], desk.project_of(data["pipeline"])
    hidden = desk.masking.applies(topic)
    desk.note_read(actor, "dead_letters.read", f"dead-letter/{letter_id}", project)
    if hidden and reveal:
        require(actor, "events.reveal", project)
        with audited(desk.store, actor, "dead_letters.reveal", f"dead-letter/{letter_id}", project=project):
            hidden = False
    found = desk.store.dead_letters.get(letter_id) if hidden else None
    if found is not None:
        data = masked(desk.masking, found, data)
    return LetterDetail(**data, masked=hidden)


def plan_replay(desk: Desk, actor: Actor, choice: LetterChoice) -> PlanView:
    """What a replay would take; nothing is changed."""
    which = _chosen(desk, actor, choice)
    plan = desk.replays.plan(which)
    return PlanView(**plan.as_dict())


def replay(
    desk: Desk, actor: Actor, choice: LetterChoice, *, edit: Edit | None = None, rate: float | None = None
) -> JobView:
    """Begin a replay, in the background, on the instance of this process; `edit` gives one letter another value."""
    which = _chosen(desk, actor, choice)
    data: dict[str, Any] = {"which": _words(choice), "edited": edit is not None}
    before, after = _values(desk, which, edit)
    subject = f"dead-letter/{which[0]}" if isinstance(which, list) and len(which) == 1 else "dead-letters"
    action = "dead_letters.edit" if edit else "dead_letters.replay"
    project = _project(desk, choice)
    with audited(desk.store, actor, action, subject, project=project, before=before, data=data) as change:
        job = desk.replays.start(which, by=actor.name, what=_words(choice), edit=edit, rate=rate)
        change.data["job"] = job_name(job)
        change.data["letters"] = job.total
        change.after = after
    return JobView.of(job)


def plan_discard(desk: Desk, actor: Actor, choice: LetterChoice) -> PlanView:
    """What a discard would close; nothing is changed."""
    counts = count_discardable(desk.store, _until_now(_chosen(desk, actor, choice)))
    return PlanView(letters=sum(counts.values()), statuses={str(status): many for status, many in counts.items()})


def discard(desk: Desk, actor: Actor, choice: LetterChoice, reason: str) -> JobView:
    """Close letters without a replay, in the background."""
    which = _until_now(_chosen(desk, actor, choice))
    if not reason.strip():
        raise ConfigError("a reason is wanted: the letters' events are given up")
    counts = count_discardable(desk.store, which)
    data = {"which": _words(choice), "reason": reason, "letters": sum(counts.values())}
    subject = f"dead-letter/{which[0]}" if isinstance(which, list) and len(which) == 1 else "dead-letters"
    pipelines = _pipelines(desk, choice)
    work = DiscardWork(desk.store, which, actor.name, reason, sum(counts.values()), pipelines)
    project = _project(desk, choice)
    with audited(desk.store, actor, "dead_letters.discard", subject, project=project, data=data) as change:
        job = desk.letter_jobs.begin("discard", work, by=actor.name, what=_words(choice), pipelines=pipelines)
        change.data["job"] = job_name(job)
    return JobView.of(job)


def jobs(desk: Desk, actor: Actor) -> list[JobView]:
    """Replays and discards, whichever instance does them, newest first."""
    require_somewhere(actor, "dead_letters.view")
    return [JobView.of(row) for row in list_jobs(desk.store, lambda row: _may_see(desk, actor, row))]


def job(desk: Desk, actor: Actor, job_id: str) -> JobView:
    """One of them."""
    return JobView.of(_job(desk, actor, job_id))


def stop_job(desk: Desk, actor: Actor, job_id: str) -> JobView:
    """Let it end early, in good order; the instance that does it learns of it within a second."""
    row = _job(desk, actor, job_id)
    for name in row.pipelines or [""]:
        require(actor, "dead_letters.operate", desk.project_of(name))
    projects = {desk.project_of(name) for name in row.pipelines}
    project = projects.pop() if len(projects) == 1 else None
    with audited(desk.store, actor, "dead_letters.stop", f"job/{job_id}", project=project):
        desk.store.letter_jobs.ask_to_stop(row.id)
        desk.letter_jobs.look()
    return job(desk, actor, job_id)


def _project(desk: Desk, choice: LetterChoice) -> str | None:
    """The project that all of the letters are of; None: there are several, or none."""
    projects = {desk.project_of(name) for name in _pipelines(desk, choice)}
    return projects.pop() if len(projects) == 1 else None


def _job(desk: Desk, actor: Actor, job_id: str) -> LetterJobRow:
    require_somewhere(actor, "dead_letters.view")
    row = find_job(desk.store, job_id)
    if row is None or not _may_see(desk, actor, row):
        raise NotFound("no such job", received=job_id, hint="jobs that ended long ago are forgotten")
    return row


def _seen(desk: Desk, actor: Actor, query: LetterQuery) -> DeadLetterFilter:
    """The letters of a query that the actor may see."""
    may_search(desk, actor, query)
    if query.pipeline is not None or allows(actor, "dead_letters.view"):
        _may_see_pipelines(desk, actor, query)
        return query.filter()
    require_somewhere(actor, "dead_letters.view")
    projects = desk.snapshot().projects.items()
    mine = sorted(name for name, project in projects if allows(actor, "dead_letters.view", project))
    return replace(query.filter(), pipelines=tuple(mine))


def _may_see_pipelines(desk: Desk, actor: Actor, query: LetterQuery) -> None:
    """Raise unless all letters of the query are of pipelines that the actor may see."""
    if query.pipeline is None:
        require_somewhere(actor, "dead_letters.view")
        if not allows(actor, "dead_letters.view"):
            raise ConfigError("which pipeline? Your role holds for some of them only", hint="filter by pipeline")
    elif not allows(actor, "dead_letters.view", desk.project_of(query.pipeline)):
        # As for a pipeline that is not there: its letters are none.
        require_somewhere(actor, "dead_letters.view")
        raise NotFound("no such pipeline", received=query.pipeline)


def _chosen(desk: Desk, actor: Actor, choice: LetterChoice) -> Which:
    """The letters, if the actor may change all of them."""
    require_somewhere(actor, "dead_letters.operate")
    if (choice.ids is None) == (choice.filter is None):
        raise ConfigError("ids or a filter is wanted", allowed=["ids", "filter"])
    if choice.filter is not None:
        if choice.filter.is_empty:
            raise ConfigError("the filter takes every letter", hint="say at least one thing that they have in common")
        _may_see_pipelines(desk, actor, choice.filter)
        may_search(desk, actor, choice.filter)
        require(actor, "dead_letters.operate", desk.project_of(choice.filter.pipeline or ""))
        return choice.filter.filter()
    ids = list(dict.fromkeys(choice.ids or ()))
    if any(not 1 <= number < 2**62 for number in ids):
        raise NotFound("no such dead letter", received=ids[:_SHOWN_IDS])
    if len(ids) == 1 or not allows(actor, "dead_letters.operate"):
        for number in ids:
            data = _letter(desk, actor, number)
            require(actor, "dead_letters.operate", desk.project_of(data["pipeline"]))
    return ids


def _until_now(which: Which) -> Which:
    """Without what fails while they are closed: nobody has seen that, and a pipeline that goes on failing would have no
    end of it."""
    if not isinstance(which, DeadLetterFilter):
        return which
    later = SYSTEM.now_ms() + 1
    return replace(which, until=later if which.until is None else min(which.until, later))


def _letter(desk: Desk, actor: Actor, letter_id: int) -> dict[str, Any]:
    require_somewhere(actor, "dead_letters.view")
    missing = NotFound("no such dead letter", received=letter_id, hint="GET /api/v1/dead-letters lists them")
    if not 1 <= letter_id < 2**62:
        raise missing
    try:
        data = show_dead_letter(desk.store, letter_id)
    except ConfigError:
        raise missing from None
    if not allows(actor, "dead_letters.view", desk.project_of(data["pipeline"])):
        raise missing
    return data


def _values(desk: Desk, which: Which, edit: Edit | None) -> tuple[str | None, str | None]:
    """Before and after an edit, as the record of changes may have them."""
    if edit is None:
        return None, None
    if not isinstance(which, list) or len(which) != 1:
        raise ConfigError("an edited value is for one letter", hint="give its id, and no other")
    found = desk.store.dead_letters.get(which[0])
    if found is None:
        raise NotFound("no such dead letter", received=which[0])
    topic, value = found.letter.topic, found.letter.value
    if desk.masking.applies(topic) and edit.value is not None and MASK.encode() in edit.value:
        raise ConfigError("the value has masked fields in it", hint="look at the letter with ?reveal=true first")
    return _text(desk.masking.bytes(topic, value)), _text(desk.masking.bytes(topic, edit.value))


def _may_see(desk: Desk, actor: Actor, job: LetterJobRow) -> bool:
    if allows(actor, "dead_letters.view"):
        return True
    names = job.pipelines
    return bool(names) and all(allows(actor, "dead_letters.view", desk.project_of(name)) for name in names)


def _pipelines(desk: Desk, choice: LetterChoice) -> set[str]:
    """Those whose letters are chosen; none: it may be any."""
    if choice.filter is not None:
        return {choice.filter.pipeline} if choice.filter.pipeline else set()
    return desk.store.dead_letters.pipelines_of(choice.ids or [])


def _words(choice: LetterChoice) -> str:
    if choice.filter is not None:
        return ", ".join(f"{name}={value}" for name, value in choice.filter.model_dump(exclude_none=True).items())
    ids = choice.ids or []
    return ", ".join(map(str, ids[:_SHOWN_IDS])) + (
        f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
