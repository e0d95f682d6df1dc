"""Finds triggers among those that an actor may see, and makes of what callers write what the store keeps and an
instance would run."""

from __future__ import annotations

import os
import uuid

from pydantic import ValidationError

from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.spec import PipelineSpec
from penstock.config.trigger_environment import TriggerDefaults
from penstock.config.workflow import TriggerSpec
from penstock.service.access import Actor, NotFound, Right, require_somewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.scoping import limits_of, require_of
from penstock.service.operations.trigger_models import NewTrigger, TriggerChange
from penstock.service.secrets import SecretBox
from penstock.service.trigger_drafts import checked_draft
from penstock.service.trigger_specs import compile_trigger
from penstock.service.trigger_wiring import new_row
from penstock.service.workflows import TAKEN_OVER
from penstock.store.work.model import TriggerRow, WorkflowRow


def trigger_of(desk: Desk, actor: Actor, right: Right, trigger_id: str) -> tuple[TriggerRow, WorkflowRow]:
    """The trigger and its workflow, if the actor has the right to them."""
    require_somewhere(actor, right)
    missing = NotFound("no such trigger", received=trigger_id, hint="GET /api/v1/triggers lists them")
    row = desk.store.triggers.get(trigger_id)
    workflow = desk.store.workflows.by_id(row.workflow_id) if row else None
    if row is None or row.deleted_at is not None or workflow is None or workflow.deleted_at is not None:
        raise missing
    require_of(actor, "triggers.view", right, workflow.project_id, missing)
    return row, workflow


def row_of(
    desk: Desk, actor: Actor, new: TriggerChange, workflow: WorkflowRow, before: TriggerRow | None
) -> tuple[TriggerRow, list[str]]:
    """The trigger as it would be saved, and what is worth a remark."""
    limits = limits_of(desk, actor, "triggers.edit", workflow.project_id)
    group = new.group_id if isinstance(new, NewTrigger) and before is None else None
    draft = checked_draft(new.kafka_configuration, limits, before.kafka_configuration if before else None, group)
    own = {name: getattr(new, name) for name in TriggerChange.model_fields if name != "kafka_configuration"}
    without = {name: value for name, value in draft.configuration.items() if name != "group_id"}
    named = new.name if isinstance(new, NewTrigger) else "kafka"
    spec = TriggerSpec.model_validate(own | {"name": before.name if before else named})
    spec = spec.model_copy(update={"kafka_configuration": without})
    if before is None:
        enabled = isinstance(new, NewTrigger) and new.enabled
        spec = spec.model_copy(update={"group_id": group, "enabled": enabled})
        return new_row(SecretBox.of(desk.store, desk.settings), workflow, spec, str(uuid.uuid4())), draft.warnings
    made = new_row(SecretBox.of(desk.store, desk.settings), workflow, spec, before.id)
    group_before = {"group_id": before.kafka_configuration.get("group_id")}
    taken_over = {TAKEN_OVER: True} if before.options.get(TAKEN_OVER) else {}
    row = TriggerRow(
        id=before.id,
        workflow_id=before.workflow_id,
        name=before.name,
        enabled=before.enabled,
        comment=made.comment,
        kafka_configuration=made.kafka_configuration | group_before,
        options=made.options | taken_over,
    )
    return row, draft.warnings


def compiled(desk: Desk, row: TriggerRow, workflow: WorkflowRow) -> PipelineSpec:
    """The pipeline that it runs as; what cannot be compiled cannot be run."""
    project = desk.store.projects.get(workflow.project_id)
    if project is None:
        raise NotFound("its project is gone", received=workflow.project_id)
    box, defaults = SecretBox.of(desk.store, desk.settings), TriggerDefaults.of(os.environ)
    try:
        return compile_trigger(row, workflow, project, box=box, store_url=desk.settings.store_url, defaults=defaults)
    except ValidationError as error:
        said = [str(each["msg"]) for each in error.errors(include_input=False, include_url=False)]
        raise InvalidConfigError([Problem(path="kafka_configuration", message=each) for each in said]) from None
