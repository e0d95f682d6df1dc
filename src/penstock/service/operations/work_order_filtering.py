"""The work orders that a question of a caller is about, within what the caller may see."""

from __future__ import annotations

from typing import Final

from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotAllowed, NotFound, Right, allows
from penstock.service.moments import moment
from penstock.service.operations.desk import Desk
from penstock.service.operations.scoping import chosen_project
from penstock.service.operations.work_order_models import WorkOrderChoice, WorkOrderQuery
from penstock.service.work_order_filters import RECENT, find_workflow
from penstock.store.work.history_model import FIELDS, SearchField, WorkOrderFilter
from penstock.store.work.model import NotThere, ProjectRow

_TELLING: Final[frozenset[SearchField]] = frozenset({"body", "log"})
Period = tuple[int | None, int | None]


def filter_of(desk: Desk, actor: Actor, right: Right, query: WorkOrderQuery) -> WorkOrderFilter:
    """`NotFound` where the query names what is not there, or not for the actor's eyes."""
    project = chosen_project(desk, actor, right, query.project)
    if query.within and query.search is None:
        raise ConfigError("places to search are given, and nothing to look for", hint="give `search`")
    if query.search is not None and not query.search.strip():
        raise ConfigError("the text to look for is empty", hint="leave `search` out")
    received = period("received", query.received_after, query.received_before)
    active = period("active", query.active_after, query.active_before)
    if active == (None, None) and not query.any_time and not query.ids:
        active = (SYSTEM.now_ms() - RECENT) * 1_000, None
    return WorkOrderFilter(
        project_id=project.id if project else None,
        workflow_id=_workflow(desk, query.workflow, project),
        trigger_id=_trigger(desk, query.trigger, project),
        states=tuple(dict.fromkeys(query.state)),
        received_after=received[0],
        received_before=received[1],
        active_after=active[0],
        active_before=active[1],
        ids=tuple(dict.fromkeys(query.ids)),
        term=query.search,
        fields=_fields(desk, actor, project, query),
    )


def _fields(desk: Desk, actor: Actor, project: ProjectRow | None, query: WorkOrderQuery) -> frozenset[SearchField]:
    """Where to search; finding words in inputs and log lines would tell what rules mask in them."""
    asked = frozenset(query.within)
    if not desk.settings.masking.rules or allows(actor, "events.reveal", project.id if project else None):
        return asked or FIELDS
    if asked & _TELLING:
        raise NotAllowed(
            "a search in inputs and logs would tell what rules mask",
            received=sorted(asked & _TELLING),
            allowed=sorted(FIELDS - _TELLING),
            hint="search for ids and names, or ask an admin",
        )
    return asked or FIELDS - _TELLING


def chosen(desk: Desk, actor: Actor, right: Right, choice: WorkOrderChoice) -> WorkOrderFilter:
    """The work orders of a job, if the actor may change all of them."""
    if (choice.ids is None) == (choice.filter is None):
        raise ConfigError("ids or a filter is wanted", allowed=["ids", "filter"])
    query = choice.filter or WorkOrderQuery(ids=choice.ids or [])
    if query.is_empty and not choice.everything:
        raise ConfigError(
            "the filter takes every work order", hint="say at least one thing that they have in common, or `everything`"
        )
    return filter_of(desk, actor, right, query)


def period(name: str, after: str | None, before: str | None) -> Period:
    """Epoch microseconds of both ends."""
    begin, end = moment(f"{name}_after", after), moment(f"{name}_before", before)
    if begin is not None and end is not None and begin >= end:
        raise ConfigError(f"{name}_after is not before {name}_before", received=f"{after} and {before}")
    return None if begin is None else begin * 1_000, None if end is None else end * 1_000


def _workflow(desk: Desk, named: str | None, project: ProjectRow | None) -> str | None:
    try:
        found = find_workflow(desk.store, named, project)
    except NotThere:
        raise NotFound("no such workflow", received=named, hint="GET /api/v1/workflows lists them") from None
    return found.id if found else None


def _trigger(desk: Desk, named: str | None, project: ProjectRow | None) -> str | None:
    if named is None:
        return None
    found = desk.store.triggers.get(named)
    workflow = desk.store.workflows.by_id(found.workflow_id) if found else None
    if found is None or workflow is None or (project is not None and workflow.project_id != project.id):
        raise NotFound("no such trigger", received=named, hint="GET /api/v1/triggers lists them")
    return found.id
