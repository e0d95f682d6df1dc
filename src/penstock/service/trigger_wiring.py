"""Puts a trigger into a workflow that is in the store, and takes it out again: its row, and the edges that lead from it
to steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from penstock.config.problems import did_you_mean
from penstock.config.trigger import new_group_id
from penstock.config.workflow import TriggerSpec
from penstock.core.errors import ConfigError
from penstock.service.secrets import SecretBox
from penstock.service.workflows import TAKEN_OVER, refuse_taken_groups, trigger_options, version_of
from penstock.store import Changed, Store, Taken
from penstock.store.work.model import NotThere, TriggerRow, WorkflowRow

_TRIES: Final = 10
"""Looks at a workflow that others change at the same moment."""


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

    def wired(definition: dict[str, Any]) -> dict[str, Any]:
        others = store.triggers.list(workflow_id=workflow.id)
        if row.name in {each.name for each in others} or row.name in _steps(definition):
            raise Taken("a trigger or step of the workflow has this name", received=row.name, hint="name it otherwise")
        refuse_taken_groups(store, [*others, row])
        edges = [{"from": row.name, "to": step, "when": "always"} for step in _first_steps(definition, steps)]
        return {
            "triggers": [*definition.get("triggers", []), row.name],
            "edges": [*definition.get("edges", []), *edges],
        }

    _rewire(store, workflow, wired, [row])
    return next(each for each in store.triggers.list(workflow_id=workflow.id) if each.name == row.name)


def remove_trigger(store: Store, workflow: WorkflowRow, row: TriggerRow) -> None:
    """Take it out of use; what it brought in stays."""

    def unwired(definition: dict[str, Any]) -> dict[str, Any]:
        return {
            "triggers": [name for name in definition.get("triggers", []) if name != row.name],
            "edges": [edge for edge in definition.get("edges", []) if edge["from"] != row.name],
        }

    _rewire(store, workflow, unwired, without=row.id)


def _rewire(
    store: Store,
    workflow: WorkflowRow,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    triggers: Sequence[TriggerRow] = (),
    *,
    without: str | None = None,
) -> None:
    """Change the definition of a workflow: as it is now, whoever else changes it meanwhile."""
    for _ in range(_TRIES):
        now = store.workflows.by_id(workflow.id)
        if now is None or now.deleted_at is not None:
            raise NotThere("the workflow is gone", received=workflow.name)
        before = _definition(store, now)
        after = before | change(before)
        with suppress(Changed):
            store.workflows.apply(
                now,
                after,
                version_of(after),
                triggers,
                delete_others=False,
                without=without,
                expected=now.updated_at,
            )
            return
    raise Changed("the workflow is being changed by others", received=workflow.name, hint="try again")


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
