"""Triggers: made, changed, switched, deleted, and their connections tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from penstock.config.secret_values import shown
from penstock.core.errors import ConfigError
from penstock.core.status import PipelineStatus
from penstock.service import resuming
from penstock.service import triggers as commands
from penstock.service.access import Actor, allows, require_somewhere
from penstock.service.audit import audited
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import PartitionView
from penstock.service.operations.offsets import MoveView
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.operations.scoping import chosen_project, require_readable
from penstock.service.operations.trigger_lookup import compiled, row_of, trigger_of
from penstock.service.operations.trigger_models import (
    EnabledView,
    NewTrigger,
    TriggerChange,
    TriggerDetail,
    TriggerItem,
)
from penstock.service.operations.workflow_lookup import workflow_of
from penstock.service.trigger_wiring import add_trigger, remove_trigger
from penstock.service.workflows import TAKEN_OVER, full_names
from penstock.store import Changed
from penstock.store.work.model import TriggerRow, WorkflowRow


def list_triggers(
    desk: Desk,
    actor: Actor,
    *,
    project: str | None = None,
    workflow: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Page[TriggerItem]:
    """Those that the actor may see, by workflow and name."""
    require_somewhere(actor, "triggers.view")
    checked_limit(limit)
    place = place_of(after, str, str, str)
    owner = chosen_project(desk, actor, "triggers.view", project) if project is not None else None
    flow = workflow_of(desk, actor, "triggers.view", workflow) if workflow is not None else None
    rows = desk.store.triggers.list(workflow_id=flow.id if flow else None, project_id=owner.id if owner else None)
    found = sorted(items_of(desk, actor, rows), key=_place)
    found = [item for item in found if place is None or _place(item) > place]
    more = len(found) > limit
    return Page(items=found[:limit], next=cursor(*_place(found[limit - 1])) if more else None)


def get_trigger(desk: Desk, actor: Actor, trigger_id: str) -> TriggerDetail:
    """One with its configuration, but not its secrets."""
    row, workflow = trigger_of(desk, actor, "triggers.view", trigger_id)
    return _detail(desk, row, workflow)


def create(desk: Desk, actor: Actor, new: NewTrigger) -> TriggerDetail:
    """Put a trigger into a workflow."""
    workflow = workflow_of(desk, actor, "triggers.edit", new.workflow)
    if new.enabled and new.group_id:
        hint = "make it, then enable it: what the group has committed is looked at then"
        raise ConfigError("a group that is taken over is not enabled at once", received=new.group_id, hint=hint)
    row, warnings = row_of(desk, actor, new, workflow, None)
    require_readable(desk, actor, compiled(desk, row, workflow).source.config.subscription)
    subject = f"trigger/{row.id}"
    with audited(desk.store, actor, "triggers.create", subject, project=workflow.project_id) as change:
        saved = add_trigger(desk.store, workflow, row, new.steps)
        change.after = _written(saved)
    return _detail(desk, saved, workflow, warnings)


def replace(desk: Desk, actor: Actor, trigger_id: str, new: TriggerChange, revision: int | None) -> TriggerDetail:
    """Change its configuration; whether it is enabled stays, and so does its group."""
    before, workflow = trigger_of(desk, actor, "triggers.edit", trigger_id)
    row, warnings = row_of(desk, actor, new, workflow, before)
    require_readable(desk, actor, compiled(desk, row, workflow).source.config.subscription)
    written = _written(before)
    with audited(
        desk.store, actor, "triggers.replace", f"trigger/{row.id}", project=workflow.project_id, before=written
    ) as change:
        saved = desk.store.triggers.save(row, expected=revision)
        change.after = _written(saved)
    return _detail(desk, saved, workflow, warnings)


def delete(desk: Desk, actor: Actor, trigger_id: str, revision: int | None) -> None:
    """Take it out of use on every instance; its work orders stay."""
    row, workflow = trigger_of(desk, actor, "triggers.edit", trigger_id)
    if revision is not None and row.updated_at != revision:
        raise Changed("the trigger was changed meanwhile", received=revision, hint="look at it again")
    written = _written(row)
    with audited(
        desk.store, actor, "triggers.delete", f"trigger/{row.id}", project=workflow.project_id, before=written
    ):
        remove_trigger(desk.store, workflow, row)


def enable(desk: Desk, actor: Actor, trigger_id: str, *, resume: str | None = None) -> EnabledView:
    """Let it run on every instance; `OffsetsGone` where somebody must say where to go on: `committed`, `earliest`,
    `latest` or a time."""
    row, workflow = trigger_of(desk, actor, "triggers.edit", trigger_id)
    spec = compiled(desk, row, workflow)
    data = {"resume": resume} if resume else {}
    with audited(
        desk.store, actor, "triggers.enable", f"trigger/{row.id}", project=workflow.project_id, data=data
    ) as change:
        try:
            done = resuming.enable(desk.store, spec, row, resume)
        except resuming.OffsetsGone as error:
            error.hint = "say where to go on with `resume`: committed, earliest, latest or a time"
            raise
        except ConfigError as error:
            error.message = error.message.replace("--resume", "resume")
            raise
        moves = [MoveView.of(move) for move in done.moves]
        change.data["partitions"] = [move.model_dump() for move in moves[:1_000]]
    return EnabledView(trigger=_item(desk, done.trigger, workflow), moves=moves, warnings=done.warnings)


def disable(desk: Desk, actor: Actor, trigger_id: str) -> TriggerItem:
    """End it on every instance; where it stands is kept."""
    row, workflow = trigger_of(desk, actor, "triggers.edit", trigger_id)
    with audited(desk.store, actor, "triggers.disable", f"trigger/{row.id}", project=workflow.project_id):
        [changed] = commands.disable(desk.store, [row])
    return _item(desk, changed, workflow)


def trigger_schema(desk: Desk, actor: Actor) -> dict[str, Any]:  # noqa: ARG001 - as all operations
    """JSON Schema of what a trigger may hold, for forms."""
    require_somewhere(actor, "triggers.view")
    return NewTrigger.model_json_schema()


def items_of(desk: Desk, actor: Actor, rows: Sequence[TriggerRow]) -> list[TriggerItem]:
    """Those that the actor may see."""
    flows = {row.id: row for row in desk.store.workflows.list()}
    names, statuses = full_names(desk.store), desk.snapshot().statuses
    return [
        _shown(row, flows[row.workflow_id], names, statuses)
        for row in rows
        if row.workflow_id in flows and allows(actor, "triggers.view", flows[row.workflow_id].project_id)
    ]


def _place(item: TriggerItem) -> tuple[str, str, str]:
    return item.workflow, item.name, item.id


def _written(row: TriggerRow) -> str:
    """As the record of changes keeps it."""
    said = {"name": row.name, "enabled": row.enabled, "comment": row.comment, "options": row.options}
    return orjson.dumps(said | {"kafka_configuration": shown(row.kafka_configuration)}).decode()


def _shown(
    row: TriggerRow, workflow: WorkflowRow, names: dict[str, str], statuses: dict[str, PipelineStatus]
) -> TriggerItem:
    view = commands.view_of(row, names, statuses).as_dict()
    return TriggerItem(**view, workflow_id=workflow.id, project_id=workflow.project_id, revision=row.updated_at)


def _item(desk: Desk, row: TriggerRow, workflow: WorkflowRow) -> TriggerItem:
    return _shown(row, workflow, full_names(desk.store), desk.snapshot().statuses)


def _detail(desk: Desk, row: TriggerRow, workflow: WorkflowRow, warnings: Sequence[str] = ()) -> TriggerDetail:
    data = commands.show_trigger(desk.store, row)
    places = [{name: place[name] for name in PartitionView.model_fields} for place in data["partitions"]]
    applied = []
    if workflow.origin != "store":
        applied = [f"the workflow comes from {workflow.origin}: what is changed here lasts until that is applied again"]
    return TriggerDetail(
        **_item(desk, row, workflow).model_dump(),
        comment=row.comment,
        kafka_configuration=data["kafka_configuration"],
        options={name: value for name, value in row.options.items() if name != TAKEN_OVER},
        pipeline=data["pipeline"],
        partitions=[PartitionView(**place) for place in places],
        updated_at=data["updated_at"],
        warnings=[*warnings, *applied],
    )
