"""Workflows as faces show them, and work orders made by hand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from penstock.config.problems import did_you_mean
from penstock.config.secret_values import shown
from penstock.core.clock import format_time
from penstock.core.errors import ConfigError
from penstock.service.pipelines import person
from penstock.service.workflows import find_workflow
from penstock.store import Store
from penstock.store.work.model import SnapshotRow, WorkflowRow


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowView:
    """A workflow in the shape that `penstock workflows list --json` promises."""

    id: str
    project: str
    name: str
    origin: str
    steps: list[str]
    triggers: list[str]
    enabled_triggers: int
    updated_at: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def list_workflows(store: Store, project: str | None = None) -> list[WorkflowView]:
    """All workflows, or those of a project, by project and name."""
    projects = {row.id: row.name for row in store.projects.list()}
    if project is not None and project not in projects.values():
        known = sorted(projects.values())
        raise ConfigError(f"there is no project {project!r}", received=project, allowed=known)
    rows = [row for row in store.workflows.list() if project in (None, projects[row.project_id])]
    views = [_view(store, row, projects[row.project_id]) for row in rows]
    return sorted(views, key=lambda view: (view.project, view.name))


def _view(store: Store, row: WorkflowRow, project: str) -> WorkflowView:
    triggers = store.triggers.list(workflow_id=row.id)
    return WorkflowView(
        id=row.id,
        project=project,
        name=row.name,
        origin=row.origin,
        steps=_steps(_current(store, row)),
        triggers=[trigger.name for trigger in triggers],
        enabled_triggers=sum(trigger.enabled for trigger in triggers),
        updated_at=format_time(row.updated_at // 1000),
    )


def _current(store: Store, row: WorkflowRow) -> SnapshotRow | None:
    return store.workflows.snapshot(row.snapshot_id) if row.snapshot_id else None


def _steps(snapshot: SnapshotRow | None) -> list[str]:
    return [step["name"] for step in snapshot.definition.get("steps", [])] if snapshot else []


def show_workflow(store: Store, name: str) -> dict[str, Any]:
    """All of a workflow but its secrets."""
    row = find_workflow(store, name)
    project = store.projects.get(row.project_id)
    snapshot = _current(store, row)
    triggers = store.triggers.list(workflow_id=row.id)
    return {
        "id": row.id,
        "project": project.name if project else row.project_id,
        "name": row.name,
        "origin": row.origin,
        "concurrency": row.concurrency,
        "snapshot": row.snapshot_id,
        "versions": len(store.workflows.snapshots(row.id)),
        "definition": shown(snapshot.definition) if snapshot else {},
        "triggers": [{"id": each.id, "name": each.name, "enabled": each.enabled} for each in triggers],
        "updated_at": format_time(row.updated_at // 1000),
    }


def run_workflow(
    store: Store,
    workflow: str,
    *,
    body: str | None = None,
    dataclip: str | None = None,
    name: str | None = None,
    step: str | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Make a work order by hand, with this input (JSON text) or one that is kept; `by` whoever sits at the machine,
    unless somebody else is named."""
    found = find_workflow(store, workflow)
    known = _steps(_current(store, found))
    if step is not None and step not in known:
        raise ConfigError(f"there is no step {step!r}", received=step, allowed=known, hint=did_you_mean(step, known))
    if body is not None:
        _check_object(body)
    made = store.orders.create(found.id, body=body, dataclip_id=dataclip, name=name, step=step, by=by or person())
    return asdict(made)


def _check_object(body: str) -> None:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"the input is not JSON: {error}", hint='an object is wanted, as in {"data": {…}}') from None
    if not isinstance(parsed, dict):
        raise ConfigError("the input is JSON, but no object", received=type(parsed).__name__, allowed=['{"data": …}'])
