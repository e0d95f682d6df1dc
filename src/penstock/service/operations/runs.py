"""Runs of work orders: their steps, and what they wrote."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from penstock.core.ids import is_id
from penstock.service.access import Actor, NotFound
from penstock.service.masking import Words
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import Text
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.operations.work_order_filtering import filter_of, period
from penstock.service.operations.work_order_models import LogView, RunItem, RunPage, RunState, WorkOrderQuery
from penstock.service.operations.work_order_views import Hiding, logs_of, run_detail_of, run_of
from penstock.service.operations.work_orders import order_of, shown
from penstock.service.work_order_shapes import Names
from penstock.store.work.history_model import LogRow
from penstock.store.work.run_lists import RunFilter, RunLists


class RunQuery(BaseModel):
    """Which runs; what is absent does not matter. Times are as 2026-01-01T00:00:00Z, a time ago like `2h`, or epoch
    milliseconds."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    project: Text | None = None
    """Name or id."""
    workflow: Text | None = None
    """Id, name, or `project/name`."""
    work_order: Text | None = None
    """Id."""
    state: list[RunState] = Field(default_factory=list, max_length=20)
    """Any of these."""
    inserted_after: Text | None = None
    inserted_before: Text | None = None
    updated_after: Text | None = None
    updated_before: Text | None = None


def list_runs(
    desk: Desk, actor: Actor, query: RunQuery, *, limit: int = 100, after: str | None = None
) -> Page[RunItem]:
    """Newest first."""
    which = run_filter(desk, actor, query)
    place = place_of(after, str)
    if place is not None and not is_id(place[0]):
        raise NotFound("`after` is of no run", received=after)
    found = RunLists(desk.store.database).list(which, limit=checked_limit(limit) + 1, after=place[0] if place else None)
    more = len(found) > limit
    return Page(items=[run_of(row) for row in found[:limit]], next=cursor(found[limit - 1].id) if more else None)


def get_run(desk: Desk, actor: Actor, run_id: str) -> RunPage:
    """One with its steps, first log lines, inputs and results."""
    require_run(desk, actor, run_id)
    found = shown(desk, actor, run_id)
    detail = next(each for each in found.runs if each.run.id == run_id.lower())
    row, names, hiding = found.row, Names.of(desk.store), Hiding.of(found, desk.masking)
    steps = [clip for step in detail.steps for clip in (step.input_dataclip_id, step.output_dataclip_id)]
    wanted = dict.fromkeys([detail.run.dataclip_id, detail.run.final_dataclip_id, *steps])
    return RunPage(
        **run_detail_of(detail, hiding).model_dump(),
        project=names.projects.get(row.project_id),
        project_id=row.project_id,
        workflow=row.workflow,
        workflow_id=row.workflow_id,
        workflow_deleted=row.workflow_deleted,
        trigger=names.triggers.get(row.trigger_id or ""),
        dataclips={clip: hiding.view(found.dataclips[clip]) for clip in wanted if clip in found.dataclips},
    )


def list_logs(desk: Desk, actor: Actor, run_id: str, *, limit: int = 1_000, after: str | None = None) -> Page[LogView]:
    """Lines of a run in their order."""
    require_run(desk, actor, run_id)
    place = place_of(after, int, str)
    if place is not None and not is_id(place[1]):
        raise NotFound("`after` is of no line", received=after)
    behind = (
        LogRow(id=place[1], run_id="", step_id=None, source="", level="", message="", timestamp=place[0])
        if place
        else None
    )
    found = desk.store.history.logs(run_id, after=behind, limit=checked_limit(limit) + 1)
    more = len(found) > limit
    found = found[:limit]
    items = logs_of(found, hidden_words(desk, actor, run_id))
    return Page(items=items, next=cursor(found[-1].timestamp, found[-1].id) if more else None)


def hidden_words(desk: Desk, actor: Actor, run_id: str) -> Words:
    """What lines of a run may say of its message."""
    if not desk.settings.masking.rules:
        return lambda text: text
    return Hiding.of(shown(desk, actor, run_id), desk.masking).words


def run_filter(desk: Desk, actor: Actor, query: RunQuery) -> RunFilter:
    """The runs that a query is about, within what the actor may see."""
    owners = filter_of(
        desk, actor, "work_orders.view", WorkOrderQuery(project=query.project, workflow=query.workflow, any_time=True)
    )
    inserted = period("inserted", query.inserted_after, query.inserted_before)
    updated = period("updated", query.updated_after, query.updated_before)
    which = RunFilter(
        project_id=owners.project_id,
        workflow_id=owners.workflow_id,
        states=tuple(dict.fromkeys(query.state)),
        inserted_after=inserted[0],
        inserted_before=inserted[1],
        updated_after=updated[0],
        updated_before=updated[1],
    )
    if query.work_order is None:
        return which
    return replace(which, work_order_id=order_of(desk, actor, query.work_order).id)


def require_run(desk: Desk, actor: Actor, run_id: str) -> None:
    """Raise unless there is such a run, and the actor may see it."""
    order_of(desk, actor, run_id)
    if desk.store.history.run(run_id) is None:
        raise NotFound("no such run", received=run_id, hint="GET /api/v1/runs lists them")
