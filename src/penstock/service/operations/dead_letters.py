"""Dead letters: looked into, replayed as they are or with another value, and discarded."""

from __future__ import annotations

from typing import Any, Final

from penstock.core.clock import format_time
from penstock.core.errors import ConfigError
from penstock.core.letter_json import bytes_as_json
from penstock.core.secrets import MASK
from penstock.service.access import Actor, NotFound, allows, require, require_somewhere
from penstock.service.audit import audited
from penstock.service.dead_letters import count_discardable, discard_dead_letters, show_dead_letter
from penstock.service.operations.desk import Desk
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
from penstock.store import DeadLetterCursor, Which

_SHOWN_IDS: Final = 20


def facets(desk: Desk, actor: Actor, query: LetterQuery) -> FacetsView:
    """How the letters that a query leaves spread over pipelines, topics, stages and errors."""
    _seen(desk, actor, query)
    found = desk.store.dead_letters.facets(query.filter())
    errors = [
        ErrorGroupView(**group._asdict() | {"last_failed_at": format_time(group.last_failed_at)})
        for group in found.errors
    ]
    return FacetsView(letters=found.letters, complete=found.complete, counts=found.counts, errors=errors)


def list_letters(
    desk: Desk, actor: Actor, query: LetterQuery, *, limit: int = 100, after: str | None = None
) -> Page[LetterItem]:
    """Newest first."""
    _seen(desk, actor, query)
    place = place_of(after, int, int)
    before = DeadLetterCursor(*place) if place else None
    rows = desk.store.dead_letters.list(query.filter(), limit=checked_limit(limit) + 1, before=before)
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(items=[LetterItem.of(row) for row in rows], next=cursor(*rows[-1].cursor) if more else None)


def get_letter(desk: Desk, actor: Actor, letter_id: int, *, reveal: bool = False) -> LetterDetail:
    """One with its bytes and history; `reveal` shows an admin what rules mask, and is written down."""
    data = _letter(desk, actor, letter_id)
    topic, project = data["topic"], desk.project_of(data["pipeline"])
    masked = desk.masking.applies(topic)
    if masked and reveal:
        require(actor, "events.reveal", project)
        with audited(desk.store, actor, "dead_letters.reveal", f"dead-letter/{letter_id}", project=project):
            masked = False
    if masked:
        found = desk.store.dead_letters.get(letter_id)
        if found is not None:
            data["value"] = bytes_as_json(desk.masking.bytes(topic, found.letter.value))
            data["value_seen"] = bytes_as_json(desk.masking.bytes(topic, found.letter.failure.value_seen))
    return LetterDetail(**data, masked=masked)


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
    before = _value_before(desk, which, edit)
    subject = f"dead-letter/{which[0]}" if isinstance(which, list) and len(which) == 1 else "dead-letters"
    action = "dead_letters.edit" if edit else "dead_letters.replay"
    with audited(desk.store, actor, action, subject, before=before, data=data) as change:
        job = desk.replays.start(which, by=actor.name, what=_words(choice), edit=edit, rate=rate)
        change.data["job"] = f"replay-{job.id}"
        change.data["letters"] = job.total
        change.after = _text(edit.value) if edit else None
    return JobView.of(job)


def plan_discard(desk: Desk, actor: Actor, choice: LetterChoice) -> PlanView:
    """What a discard would close; nothing is changed."""
    counts = count_discardable(desk.store, _chosen(desk, actor, choice))
    return PlanView(letters=sum(counts.values()), statuses={str(status): many for status, many in counts.items()})


def discard(desk: Desk, actor: Actor, choice: LetterChoice, reason: str) -> JobView:
    """Close letters without a replay, in the background."""
    which = _chosen(desk, actor, choice)
    if not reason.strip():
        raise ConfigError("a reason is wanted: the letters' events are given up")
    counts = count_discardable(desk.store, which)
    data = {"which": _words(choice), "reason": reason, "letters": sum(counts.values())}
    subject = f"dead-letter/{which[0]}" if isinstance(which, list) and len(which) == 1 else "dead-letters"
    pipelines = frozenset([choice.filter.pipeline]) if choice.filter and choice.filter.pipeline else frozenset[str]()
    with audited(desk.store, actor, "dead_letters.discard", subject, data=data) as change:
        job = desk.discards.start(
            lambda progress: discard_dead_letters(desk.store, which, by=actor.name, reason=reason, progress=progress),
            by=actor.name,
            what=_words(choice),
            letters=sum(counts.values()),
            pipelines=pipelines,
        )
        change.data["job"] = f"discard-{job.id}"
    return job.view()


def jobs(desk: Desk, actor: Actor) -> list[JobView]:
    """Replays and discards of this instance, newest first."""
    require_somewhere(actor, "dead_letters.view")
    found = [job.view() for job in desk.discards.all() if _may_see(desk, actor, job.pipelines)]
    found += [JobView.of(job) for job in desk.replays.list() if _may_see(desk, actor, frozenset(job.replay.plan.specs))]
    return sorted(found, key=lambda job: job.asked_at, reverse=True)


def job(desk: Desk, actor: Actor, job_id: str) -> JobView:
    """One of them."""
    for each in jobs(desk, actor):
        if each.id == job_id:
            return each
    raise NotFound("no such job", received=job_id, hint="jobs are forgotten when their instance stops")


def stop_job(desk: Desk, actor: Actor, job_id: str) -> JobView:
    """Let it end early, in good order."""
    view = job(desk, actor, job_id)
    number = int(job_id.rpartition("-")[2])
    found = desk.discards.get(number) if view.kind == "discard" else None
    names = found.pipelines if found else frozenset(desk.replays.get(number).replay.plan.specs)
    for name in names or [""]:
        require(actor, "dead_letters.operate", desk.project_of(name))
    with audited(desk.store, actor, "dead_letters.stop", f"job/{job_id}"):
        if found is not None:
            found.asked_to_stop = True
        else:
            desk.replays.stop(number)
    return job(desk, actor, job_id)


def _seen(desk: Desk, actor: Actor, query: LetterQuery) -> None:
    """A list over all pipelines is for those who may see all of them."""
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
        _seen(desk, actor, choice.filter)
        require(actor, "dead_letters.operate", desk.project_of(choice.filter.pipeline or ""))
        return choice.filter.filter()
    ids = list(dict.fromkeys(choice.ids or ()))
    if any(not 1 <= number < 2**62 for number in ids):
        raise NotFound("no such dead letter", received=ids[:_SHOWN_IDS])
    if not allows(actor, "dead_letters.operate"):
        for number in ids:
            data = _letter(desk, actor, number)
            require(actor, "dead_letters.operate", desk.project_of(data["pipeline"]))
    return ids


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


def _value_before(desk: Desk, which: Which, edit: Edit | None) -> str | None:
    if edit is None:
        return None
    if not isinstance(which, list) or len(which) != 1:
        raise ConfigError("an edited value is for one letter", hint="give its id, and no other")
    found = desk.store.dead_letters.get(which[0])
    if found is None:
        raise NotFound("no such dead letter", received=which[0])
    if desk.masking.applies(found.letter.topic):
        if edit.value is not None and MASK.encode() in edit.value:
            raise ConfigError("the value has masked fields in it", hint="look at the letter with ?reveal=true first")
        return None  # what is masked is not to be read in the record either
    return _text(found.letter.value)


def _may_see(desk: Desk, actor: Actor, pipelines: frozenset[str]) -> bool:
    if allows(actor, "dead_letters.view"):
        return True
    return bool(pipelines) and all(allows(actor, "dead_letters.view", desk.project_of(name)) for name in pipelines)


def _words(choice: LetterChoice) -> str:
    if choice.filter is not None:
        return ", ".join(f"{name}={value}" for name, value in choice.filter.model_dump(exclude_none=True).items())
    ids = choice.ids or []
    return ", ".join(map(str, ids[:_SHOWN_IDS])) + (
        f" and {len(ids) - _SHOWN_IDS} more" if len(ids) > _SHOWN_IDS else ""
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
