"""Workflows: looked at, and started by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from penstock.config.schema import WORKFLOW_SCHEMA_FILE
from penstock.config.secret_values import shown
from penstock.core.clock import format_time
from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotFound, allows, require_somewhere
from penstock.service.audit import audited
from penstock.service.operations.desk import Desk
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.operations.scoping import chosen_project
from penstock.service.operations.triggers import items_of
from penstock.service.operations.versions import as_yaml
from penstock.service.operations.workflow_lookup import workflow_of
from penstock.service.operations.workflow_models import (
    EdgeView,
    StartedView,
    StepSpecView,
    WorkflowDetail,
    WorkflowItem,
    WorkflowVersion,
    WorkflowVersionText,
)
from penstock.service.submitted_workflows import text_of
from penstock.service.workflow_views import run_workflow
from penstock.store.work.model import NotThere, SnapshotRow, TriggerRow, WorkflowRow


def list_workflows(
    desk: Desk,
    actor: Actor,
    *,
    project: str | None = None,
    text: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Page[WorkflowItem]:
    """Those that the actor may see, by project and name; `text` is part of the name."""
    require_somewhere(actor, "workflows.view")
    checked_limit(limit)
    place = place_of(after, str, str)
    owner = chosen_project(desk, actor, "workflows.view", project) if project is not None else None
    names = {row.id: row.name for row in desk.store.projects.list()}
    found = [
        (names[row.project_id], row)
        for row in desk.store.workflows.list(owner.id if owner else None)
        if allows(actor, "workflows.view", row.project_id) and (text is None or text.lower() in row.name.lower())
    ]
    found = sorted(found, key=lambda each: (each[0], each[1].name))
    found = [each for each in found if place is None or (each[0], each[1].name) > place]
    more, found = len(found) > limit, found[:limit]
    triggers: dict[str, list[TriggerRow]] = {}
    for trigger in desk.store.triggers.list(project_id=owner.id if owner else None):
        triggers.setdefault(trigger.workflow_id, []).append(trigger)
    items = [_item(desk, row, name, triggers.get(row.id, [])) for name, row in found]
    return Page(items=items, next=cursor(items[-1].project, items[-1].name) if more else None)


def get_workflow(desk: Desk, actor: Actor, workflow: str) -> WorkflowDetail:
    """One with its steps, edges and triggers."""
    return detail_of(desk, actor, workflow_of(desk, actor, "workflows.view", workflow))


def run(
    desk: Desk,
    actor: Actor,
    workflow: str,
    *,
    body: str | None = None,
    dataclip: str | None = None,
    name: str | None = None,
    step: str | None = None,
) -> StartedView:
    """Make a work order by hand, with this input (a JSON object) or one that is kept; an instance runs it at once."""
    row = workflow_of(desk, actor, "workflows.operate", workflow)
    if dataclip is not None and (body is not None or name is not None):
        raise ConfigError("an input or one that is kept is wanted, not both", allowed=["input and name", "dataclip"])
    data = {"step": step, "name": name, "dataclip": dataclip}
    subject = f"workflow/{row.id}"
    with audited(desk.store, actor, "workflows.run", subject, project=row.project_id, data=data) as change:
        try:
            made = run_workflow(desk.store, row.id, body=body, dataclip=dataclip, name=name, step=step, by=actor.name)
        except NotThere as error:
            raise NotFound(error.message, received=error.received) from None
        change.data["work_order"] = made["work_order_id"]
    return StartedView(work_order=made["work_order_id"], run=made["run_id"], dataclip=made["dataclip_id"])


def versions(desk: Desk, actor: Actor, workflow: str) -> list[WorkflowVersion]:
    """Newest first."""
    row = workflow_of(desk, actor, "workflows.view", workflow)
    return [WorkflowVersion(**_version(each, row)) for each in desk.store.workflows.snapshots(row.id)]


def version_text(desk: Desk, actor: Actor, workflow: str, version: str) -> WorkflowVersionText:
    """One of them with its definition; by its version, or the id that runs name."""
    row = workflow_of(desk, actor, "workflows.view", workflow)
    for each in desk.store.workflows.snapshots(row.id):
        if version in (each.version, each.id):
            text = as_yaml(text_of(_project(desk, row), row.name, each.definition))
            return WorkflowVersionText(**_version(each, row), text=text, definition=shown(each.definition))
    raise NotFound("no such version", received=version)


def workflow_schema(desk: Desk, actor: Actor) -> dict[str, Any]:  # noqa: ARG001 - as all operations
    """JSON Schema of workflow documents, for editors and forms."""
    require_somewhere(actor, "workflows.view")
    return _schema()


def detail_of(desk: Desk, actor: Actor, row: WorkflowRow, warnings: list[str] | None = None) -> WorkflowDetail:
    """All of a workflow but its secrets."""
    triggers = desk.store.triggers.list(workflow_id=row.id)
    snapshot = _current(desk, row)
    definition: dict[str, Any] = shown(snapshot.definition) if snapshot else {}
    project = _project(desk, row)
    return WorkflowDetail(
        **_item(desk, row, project, triggers).model_dump(),
        concurrency=row.concurrency,
        version=snapshot.version if snapshot else None,
        versions=len(desk.store.workflows.snapshots(row.id)),
        steps_detail=[
            StepSpecView(name=step["name"], kind=step.get("kind", ""), config=step.get("config", {}))
            for step in definition.get("steps", [])
        ],
        edges=[
            EdgeView(source=edge["from"], target=edge["to"], when=edge.get("when", "always"))
            for edge in definition.get("edges", [])
        ],
        trigger_items=items_of(desk, actor, triggers),
        definition=definition,
        text=as_yaml(text_of(project, row.name, snapshot.definition if snapshot else {})),
        warnings=warnings or [],
    )


def _item(desk: Desk, row: WorkflowRow, project: str, triggers: list[TriggerRow]) -> WorkflowItem:
    snapshot = _current(desk, row)
    return WorkflowItem(
        id=row.id,
        project=project,
        project_id=row.project_id,
        name=row.name,
        origin=row.origin,
        steps=[step["name"] for step in snapshot.definition.get("steps", [])] if snapshot else [],
        triggers=[trigger.name for trigger in triggers],
        enabled_triggers=sum(trigger.enabled for trigger in triggers),
        updated_at=format_time(row.updated_at // 1000),
        revision=row.updated_at,
    )


def _current(desk: Desk, row: WorkflowRow) -> SnapshotRow | None:
    return desk.store.workflows.snapshot(row.snapshot_id) if row.snapshot_id else None


def _project(desk: Desk, row: WorkflowRow) -> str:
    found = desk.store.projects.get(row.project_id)
    return found.name if found else row.project_id


def _version(snapshot: SnapshotRow, row: WorkflowRow) -> dict[str, Any]:
    return {
        "id": snapshot.id,
        "version": snapshot.version,
        "saved_at": format_time(snapshot.inserted_at // 1000),
        "current": snapshot.id == row.snapshot_id,
    }


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(WORKFLOW_SCHEMA_FILE.read_bytes())
    return found
