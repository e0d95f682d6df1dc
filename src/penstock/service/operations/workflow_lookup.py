"""Finds workflows among those that an actor may see."""

from __future__ import annotations

from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotFound, Right, allows, require_somewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.scoping import require_of
from penstock.service.workflows import full_names
from penstock.store.work.model import WorkflowRow


def workflow_of(desk: Desk, actor: Actor, right: Right, named: str) -> WorkflowRow:
    """By its id, `project/name`, or its name where only one has it; one that the actor may not see is not there."""
    require_somewhere(actor, right)
    full = full_names(desk.store)
    rows = [row for row in desk.store.workflows.list() if allows(actor, "workflows.view", row.project_id)]
    found = [row for row in rows if named.lower() == row.id or named == full[row.id]]
    found = found or [row for row in rows if row.name == named]
    missing = NotFound("no such workflow", received=named, hint="GET /api/v1/workflows lists them")
    if not found:
        raise missing
    if len(found) > 1:
        several = sorted(full[row.id] for row in found)
        raise ConfigError(f"several projects have a workflow {named!r}", received=named, allowed=several)
    require_of(actor, "workflows.view", right, found[0].project_id, missing)
    return found[0]
