"""Puts a trigger into a workflow that is in the store, and takes it out again: its row, and the edges that lead from it
to steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.config.problems import did_you_mean
from penstock.config.trigger import new_group_id
from penstock.config.workflow import TriggerSpec
from penstock.core.errors import ConfigError
from penstock.service.secrets import SecretBox
from penstock.service.workflows import TAKEN_OVER, refuse_taken_groups, trigger_options, version_of
from penstock.store import Store, Taken
from penstock.store.work.model import TriggerRow, WorkflowRow


def new_row(box: SecretBox, workflow: WorkflowRow, trigger: TriggerSpec, trigger_id: str) -> TriggerRow:
    """A trigger as the store keeps it; it is not saved yet."""
    taken_over = {TAKEN_OVER: True} if trigger.group_id else {}
    return TriggerRow(
        id=trigger_id,
        workflow_id=workflow.id,
        name=trigger.name,
        enabled=trigger.enabled,
        comment=trigger.comment,
        kafka_configuration=box.hidden(trigger.kafka_configuration) | {"group_id": trigger.group_id or new_group_id()},
        options=trigger_options(trigger) | taken_over,
    )


def add_trigger(store: Store, workflow: WorkflowRow, row: TriggerRow, steps: Sequence[str] | None) -> TriggerRow:
    """Let the workflow have it; `steps` follow it, or those that follow no other step."""
    others = store.triggers.list(workflow_id=workflow.id)
    definition = _definition(store, workflow)
    if row.name in {each.name for each in others} or row.name in _steps(definition):
        raise Taken("a trigger or step of the workflow has this name", received=row.name, hint="name it otherwise")
    refuse_taken_groups(store, [*others, row])
    edges = [{"from": row.name, "to": step, "when": "always"} for step in _first_steps(definition, steps)]
    changed = definition | {
        "triggers": [*definition.get("triggers", []), row.name],
        "edges": [*definition.get("edges", []), *edges],
    }
    store.workflows.apply(workflow, changed, version_of(changed), [row], delete_others=False)
    return next(each for each in store.triggers.list(workflow_id=workflow.id) if each.name == row.name)


def remove_trigger(store: Store, workflow: WorkflowRow, row: TriggerRow) -> None:
    """Take it out of use; what it brought in stays."""
    definition = _definition(store, workflow)
    changed = definition | {
        "triggers": [name for name in definition.get("triggers", []) if name != row.name],
        "edges": [edge for edge in definition.get("edges", []) if edge["from"] != row.name],
    }
    others = [each for each in store.triggers.list(workflow_id=workflow.id) if each.id != row.id]
    store.workflows.apply(workflow, changed, version_of(changed), others)


def _definition(store: Store, workflow: WorkflowRow) -> dict[str, Any]:
    snapshot = store.workflows.snapshot(workflow.snapshot_id) if workflow.snapshot_id else None
    if snapshot is None:
        raise ConfigError("the workflow has no steps", received=workflow.name)
    return snapshot.definition


def _steps(definition: dict[str, Any]) -> list[str]:
    return [step["name"] for step in definition.get("steps", [])]


def _first_steps(definition: dict[str, Any], chosen: Sequence[str] | None) -> list[str]:
    steps = _steps(definition)
    for name in chosen or ():
        if name not in steps:
            hint = did_you_mean(name, steps)
            raise ConfigError("the workflow has no such step", received=name, allowed=steps, hint=hint)
    followed = {edge["to"] for edge in definition.get("edges", []) if edge["from"] in steps}
    return list(dict.fromkeys(chosen)) if chosen else [name for name in steps if name not in followed]
