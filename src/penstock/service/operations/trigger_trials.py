"""Tries connections of triggers, saved or not, and shows what they would take in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError
from penstock.core.net.guard import UNGUARDED, AddressGuard, plain_name
from penstock.service.access import Actor
from penstock.service.audit import Change, audited
from penstock.service.connection_test import ConnectionReport, MessagePreview, preview_messages, try_connection
from penstock.service.operations.desk import Desk
from penstock.service.operations.scoping import limits_of
from penstock.service.operations.trigger_lookup import compiled, row_of, trigger_of
from penstock.service.operations.trigger_models import NewTrigger, TriggerChange
from penstock.service.operations.workflow_lookup import workflow_of
from penstock.store.work.model import TriggerRow, WorkflowRow

LONGEST: Final = 30.0
"""Seconds that each step of a test may take."""
MOST_PREVIEWED: Final = 50


def try_saved(desk: Desk, actor: Actor, trigger_id: str, *, timeout: float = 5.0) -> ConnectionReport:
    """Try its connection, each step apart; nothing is changed."""
    row, workflow = trigger_of(desk, actor, "triggers.test", trigger_id)
    spec, outbound = compiled(desk, row, workflow), _reachable(desk, actor, row, workflow)
    with _written_down(desk, actor, "triggers.test", spec, workflow):
        return try_connection(spec, outbound, _bounded(timeout))


def try_draft(
    desk: Desk, actor: Actor, draft: TriggerChange, *, trigger_id: str | None = None, timeout: float = 5.0
) -> ConnectionReport:
    """The same for one that is not saved, or not as it is written here."""
    spec, guard, workflow = _drafted(desk, actor, draft, trigger_id)
    with _written_down(desk, actor, "triggers.test", spec, workflow):
        return try_connection(spec, guard, _bounded(timeout))


def preview(
    desk: Desk, actor: Actor, draft: TriggerChange, *, trigger_id: str | None = None, last: int = 10
) -> list[MessagePreview]:
    """The last messages as the trigger would take them in, newest first; nothing is taken in."""
    if not 1 <= last <= MOST_PREVIEWED:
        raise ConfigError("the number of messages is out of range", received=last, allowed=f"1 to {MOST_PREVIEWED}")
    spec, guard, workflow = _drafted(desk, actor, draft, trigger_id)
    with _written_down(desk, actor, "triggers.preview", spec, workflow):
        return preview_messages(spec, guard, desk.masking, last, skips=draft.tombstones == "skip")


def _drafted(
    desk: Desk, actor: Actor, draft: TriggerChange, trigger_id: str | None
) -> tuple[PipelineSpec, AddressGuard, WorkflowRow]:
    before: TriggerRow | None = None
    if trigger_id is not None:
        before, workflow = trigger_of(desk, actor, "triggers.test", trigger_id)
    elif isinstance(draft, NewTrigger):
        workflow = workflow_of(desk, actor, "triggers.test", draft.workflow)
    else:
        raise ConfigError("which workflow is the trigger for?", hint="give `workflow`")
    row, _ = row_of(desk, actor, draft, workflow, before)
    return compiled(desk, row, workflow), _reachable(desk, actor, before, workflow), workflow


def _written_down(
    desk: Desk, actor: Actor, action: str, spec: PipelineSpec, workflow: WorkflowRow
) -> AbstractContextManager[Change]:
    """Whoever tries a connection makes this machine ask another one."""
    source = spec.source.config
    data = {"bootstrap": source.connection.bootstrap, "topics": source.subscription[:100]}
    subject = f"workflow/{workflow.id}"
    return audited(desk.store, actor, action, subject, project=workflow.project_id, data=data)


def _reachable(desk: Desk, actor: Actor, row: TriggerRow | None, workflow: WorkflowRow) -> AddressGuard:
    """Where a test may connect to."""
    limits = limits_of(desk, actor, "triggers.test", workflow.project_id)
    if "private" in limits.allowed:
        return UNGUARDED
    if actor.role == "admin" and row is not None and workflow.origin != "store":
        # The cluster of a workflow's file; what its brokers advertise is checked all the same.
        saved = {(plain_name(str(host)), int(port)) for host, port in row.kafka_configuration.get("hosts") or ()}
        return replace(limits.outbound, brokers=limits.outbound.brokers | saved)
    return limits.outbound


def _bounded(timeout: float) -> float:
    if not 0 < timeout <= LONGEST:
        raise ConfigError("the time is out of range", received=timeout, allowed=f"up to {LONGEST:g} seconds")
    return timeout
