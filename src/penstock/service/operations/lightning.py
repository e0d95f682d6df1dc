"""Work orders, runs and log lines as programs written for Lightning ask for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotFound, allows, require_somewhere
from penstock.service.operations import runs, work_orders
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import Text, View
from penstock.service.operations.runs import RunQuery, run_filter
from penstock.service.operations.work_order_filtering import filter_of, period
from penstock.service.operations.work_order_models import RetryView, RunState, WorkOrderQuery, WorkOrderState
from penstock.service.work_order_shapes import format_micros
from penstock.store.work.history_model import LogRow, RunRow, WorkOrderRow
from penstock.store.work.run_lists import RunFilter, RunLists

_FARTHEST: Final = 100_000
"""Items that pages by number reach; further ones take as long as all before them."""
Row = TypeVar("Row")


class LightningQuery(BaseModel):
    """Lightning's parameters; times are ISO-8601, lists have commas."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    page: int = Field(default=1, ge=1, le=_FARTHEST)
    page_size: int = Field(default=10, ge=1, le=100)
    state: Text | None = None
    """Any of these."""
    inserted_after: Text | None = None
    inserted_before: Text | None = None
    updated_after: Text | None = None
    updated_before: Text | None = None
    project_id: Text | None = None
    workflow_id: Text | None = None
    id: Text | None = None
    """Any of these."""

    def skip(self) -> int:
        skip = (self.page - 1) * self.page_size
        if skip >= _FARTHEST:
            raise ConfigError("the page is too far", received=self.page, hint="narrow it down by time")
        return skip

    def project(self, of_path: str | None) -> str | None:
        """The project that is meant, by the path or by the parameter."""
        if of_path is not None and self.project_id is not None and self.project_id.lower() != of_path.lower():
            raise ConfigError("project_id is not the path's project", received=self.project_id, allowed=of_path)
        return of_path if of_path is not None else self.project_id

    def check_times(self) -> None:
        """Raise where one is none, by the name that the caller gave it."""
        period("inserted", self.inserted_after, self.inserted_before)
        period("updated", self.updated_after, self.updated_before)


class LogQuery(LightningQuery):
    """The same for log lines, which may be those of one run or work order."""

    run_id: Text | None = None
    work_order_id: Text | None = None


class Resource(View):
    """One thing, as JSON:API has it."""

    type: str
    id: str
    attributes: dict[str, Any]
    relationships: dict[str, Any] = Field(default_factory=dict)
    links: dict[str, str] = Field(default_factory=dict)


class Meta(View):
    """Where a page is among all."""

    total_entries: int
    total_pages: int
    page_number: int
    page_size: int


class Listing(View):
    """A page of things."""

    data: list[Resource]
    included: list[Resource] = Field(default_factory=list)
    meta: Meta
    links: dict[str, str | None] = Field(default_factory=dict)


class Single(View):
    """One of them."""

    data: Resource
    included: list[Resource] = Field(default_factory=list)
    links: dict[str, str | None] = Field(default_factory=dict)


def list_work_orders(desk: Desk, actor: Actor, query: LightningQuery, project: str | None = None) -> Listing:
    """Newest first; of a project, if that is given by the path."""
    owner = _project(desk, actor, query.project(project))
    query.check_times()
    asked = WorkOrderQuery(
        project=owner,
        workflow=query.workflow_id,
        state=_words(query.state, get_args(WorkOrderState)),
        received_after=query.inserted_after,
        received_before=query.inserted_before,
        active_after=query.updated_after,
        active_before=query.updated_before,
        ids=_listed(query.id),
        any_time=True,
    )
    which = filter_of(desk, actor, "work_orders.view", asked)
    rows = desk.store.history.list(which, limit=query.page_size, skip=query.skip())
    return _page(query, rows, work_order_resource, desk.store.history.count(which, cap=_FARTHEST).number)


def get_work_order(desk: Desk, actor: Actor, identifier: str) -> Single:
    row = work_orders.order_of(desk, actor, identifier)
    if row.id != identifier.lower():
        raise NotFound("no such work order", received=identifier)
    return _single(work_order_resource(row), [run_resource(run) for run in row.runs])


def list_runs(desk: Desk, actor: Actor, query: LightningQuery, project: str | None = None) -> Listing:
    """Newest first."""
    which, lists = _runs(desk, actor, query, project), RunLists(desk.store.database)
    rows = lists.list(which, limit=query.page_size, skip=query.skip())
    return _page(query, rows, run_resource, lists.count(which, cap=_FARTHEST).number)


def get_run(desk: Desk, actor: Actor, identifier: str) -> Single:
    runs.require_run(desk, actor, identifier)
    found = desk.store.history.run(identifier)
    if found is None:
        raise NotFound("no such run", received=identifier)
    return _single(run_resource(found.run), [])


def list_log_lines(desk: Desk, actor: Actor, query: LogQuery) -> Listing:
    """Newest first."""
    which, ids = _runs(desk, actor, query, None), _listed(query.id)
    which = replace(which, ids=(query.run_id,) if query.run_id is not None else ())
    if query.work_order_id is not None:
        which = replace(which, work_order_id=work_orders.order_of(desk, actor, query.work_order_id).id)
    lists = RunLists(desk.store.database)
    rows = lists.logs(which, ids=ids, limit=query.page_size, skip=query.skip())
    words = {run: runs.hidden_words(desk, actor, run) for run in {row.run_id for row in rows}}
    rows = tuple(replace(row, message=words[row.run_id](row.message)) for row in rows)
    return _page(query, rows, log_resource, lists.count_logs(which, ids=ids, cap=_FARTHEST).number)


def retry(desk: Desk, actor: Actor, project: str, run_id: str, step_id: str | None = None) -> RetryView:
    """Run again as a run was, or from one of its steps."""
    owner = _project(desk, actor, project)
    row = work_orders.order_of(desk, actor, run_id, "work_orders.operate")
    found = desk.store.history.run(run_id)
    if row.project_id != owner or found is None:
        raise NotFound("no such run", received=run_id)
    steps = {step.id: step.name for step in found.steps}
    if step_id is not None and step_id.lower() not in steps:
        raise NotFound("the run has no such step", received=step_id)
    return work_orders.retry(desk, actor, run_id, step=steps[step_id.lower()] if step_id else None)


def work_order_resource(row: WorkOrderRow) -> Resource:
    return Resource(
        type="work_orders",
        id=row.id,
        attributes={
            "state": row.state,
            "last_activity": format_micros(row.last_activity),
            "inserted_at": format_micros(row.inserted_at),
            "updated_at": format_micros(row.updated_at),
        },
        relationships={
            **_related("workflow", "workflows", row.workflow_id),
            **_related("trigger", "triggers", row.trigger_id),
            **_related("dataclip", "dataclips", row.dataclip_id),
            "runs": {"data": [{"type": "runs", "id": run.id} for run in row.runs]},
        },
        links={"self": f"/api/work_orders/{row.id}"},
    )


def run_resource(run: RunRow) -> Resource:
    return Resource(
        type="runs",
        id=run.id,
        attributes={
            "state": run.state,
            "error_type": run.error_type,
            "claimed_at": format_micros(run.claimed_at),
            "started_at": format_micros(run.started_at),
            "finished_at": format_micros(run.finished_at),
            "inserted_at": format_micros(run.inserted_at),
            "updated_at": format_micros(run.updated_at),
        },
        relationships={
            **_related("work_order", "work_orders", run.work_order_id),
            **_related("workflow", "workflows", run.workflow_id),
            **_related("starting_trigger", "triggers", run.starting_trigger_id),
        },
        links={"self": f"/api/runs/{run.id}"},
    )


def log_resource(line: LogRow) -> Resource:
    return Resource(
        type="log_lines",
        id=line.id,
        attributes={
            "message": line.message,
            "level": line.level,
            "source": line.source,
            "timestamp": format_micros(line.timestamp),
        },
        relationships={**_related("run", "runs", line.run_id), **_related("step", "steps", line.step_id)},
    )


def _runs(desk: Desk, actor: Actor, query: LightningQuery, project: str | None) -> RunFilter:
    asked = RunQuery(
        project=_project(desk, actor, query.project(project)),
        workflow=query.workflow_id,
        state=_words(query.state, get_args(RunState)),
        inserted_after=query.inserted_after,
        inserted_before=query.inserted_before,
        updated_after=query.updated_after,
        updated_before=query.updated_before,
    )
    ids = _listed(query.id)
    return replace(run_filter(desk, actor, asked), ids=tuple(ids))


def _project(desk: Desk, actor: Actor, project: str | None) -> str | None:
    """One that is not the caller's is as if it were not there."""
    require_somewhere(actor, "work_orders.view")
    if project is None:
        return None
    found = desk.store.projects.get(project)
    if found is None or found.id != project.lower() or not allows(actor, "work_orders.view", found.id):
        raise NotFound("no such project", received=project)
    return found.id


def _page(query: LightningQuery, rows: Sequence[Row], made: Callable[[Row], Resource], total: int) -> Listing:
    meta = Meta(
        total_entries=total,
        total_pages=max(1, math.ceil(total / query.page_size)),
        page_number=query.page,
        page_size=query.page_size,
    )
    return Listing(data=[made(row) for row in rows], meta=meta)


def _single(resource: Resource, included: list[Resource]) -> Single:
    return Single(data=resource, included=included, links=dict(resource.links))


def _related(name: str, kind: str, identifier: str | None) -> dict[str, Any]:
    return {name: {"data": {"type": kind, "id": identifier} if identifier else None}}


def _listed(text: str | None) -> list[str]:
    if text is None:
        return []
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        # Whoever has no ids to ask for does not want all there are.
        raise ConfigError("a list has nothing in it", received=text, hint="leave the parameter out")
    return words


def _words(text: str | None, unions: Sequence[Any]) -> list[Any]:
    allowed = [word for each in unions for word in (get_args(each) or (each,))]
    for word in _listed(text):
        if word not in allowed:
            raise ConfigError("no such state", received=word, allowed=allowed)
    return _listed(text)
