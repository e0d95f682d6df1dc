"""Documents of workflows: checked, kept in the store, replaced and taken out of use."""

from __future__ import annotations

from typing import Any

from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.secret_values import shown
from penstock.config.workflow import DEFAULT_PROJECT, WorkflowSpec
from penstock.service.access import Actor, NotFound, allows, require, require_somewhere
from penstock.service.audit import audited
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import ProblemView, Validation
from penstock.service.operations.scoping import limits_of, require_readable
from penstock.service.operations.versions import as_yaml
from penstock.service.operations.workflow_lookup import workflow_of
from penstock.service.operations.workflow_models import WorkflowDetail
from penstock.service.operations.workflows import detail_of
from penstock.service.secrets import SecretBox
from penstock.service.submitted_workflows import (
    NAME,
    Stored,
    SubmittedWorkflow,
    check_workflow,
    named_in,
    text_of,
)
from penstock.service.workflows import save_project, stable_id, version_of
from penstock.store import Changed, Taken
from penstock.store.work.model import ProjectRow, WorkflowRow


def validate_text(desk: Desk, actor: Actor, text: str) -> Validation:
    """What is right and wrong with a document, as far as this actor may use it; nothing is kept."""
    require_somewhere(actor, "workflows.edit")
    named = named_in(text)
    project = desk.store.projects.get(named.project or DEFAULT_PROJECT)
    seen = project if project is not None and allows(actor, "workflows.view", project.id) else None
    row = desk.store.workflows.get(seen.id, named.name) if seen and named.name else None
    found = _checked(desk, actor, text, seen, row)
    return Validation(
        valid=found.spec is not None,
        name=found.spec.full_name if found.spec else None,
        spec=shown(found.spec.definition()) if found.spec else None,
        problems=[ProblemView.of(problem) for problem in found.problems],
        warnings=[ProblemView.of(warning) for warning in found.warnings],
    )


def create(desk: Desk, actor: Actor, text: str) -> WorkflowDetail:
    """Keep a new one; `Taken` where the project has one of its name."""
    require_somewhere(actor, "workflows.edit")
    named = named_in(text)
    project = desk.store.projects.get(named.project or DEFAULT_PROJECT)
    if project is None or not allows(actor, "workflows.view", project.id):
        # A project that is not there yet is made by those whose role holds for all.
        if not allows(actor, "workflows.edit"):
            raise NotFound("no such project", received=named.project, hint="GET /api/v1/projects lists them")
    else:
        require(actor, "workflows.edit", project.id)
    found = _checked(desk, actor, text, project, None)
    spec = _valid(found)
    _may_feed(actor, spec)
    if project is not None and desk.store.workflows.get(project.id, spec.name) is not None:
        raise Taken("the project has a workflow of this name", received=spec.full_name, hint="replace that one")
    box = SecretBox.of(desk.store, desk.settings)
    row_id = stable_id(spec.project.name, spec.name)
    owner = project.id if project else None
    with audited(desk.store, actor, "workflows.create", f"workflow/{row_id}", project=owner) as change:
        owner = (project or save_project(desk.store, box, spec.project)).id
        definition = box.hidden(found.definition())
        row = WorkflowRow(id=row_id, project_id=owner, name=spec.name, concurrency=spec.concurrency)
        saved = desk.store.workflows.apply(row, definition, version_of(definition))
        change.after = text
    return detail_of(desk, actor, saved)


def replace(desk: Desk, actor: Actor, workflow: str, text: str, revision: int | None) -> WorkflowDetail:
    """Keep other steps and edges; its triggers stay. `Changed` where the revision is not this one."""
    row = workflow_of(desk, actor, "workflows.edit", workflow)
    project = desk.store.projects.get(row.project_id)
    found = _named(row, project, _checked(desk, actor, text, project, row))
    spec = _valid(found)
    _may_feed(actor, spec)
    # Its steps are given what its triggers read.
    read = [each.kafka_configuration.get("topics") or [] for each in desk.store.triggers.list(workflow_id=row.id)]
    require_readable(desk, actor, *read)
    box, before = SecretBox.of(desk.store, desk.settings), _definition(desk, row)
    definition = box.hidden(found.definition()) | {name: before[name] for name in ("lightning",) if name in before}
    changed = WorkflowRow(id=row.id, project_id=row.project_id, name=row.name, concurrency=spec.concurrency)
    passing = lasts_until(row.origin)
    with audited(
        desk.store,
        actor,
        "workflows.replace",
        f"workflow/{row.id}",
        project=row.project_id,
        before=as_yaml(text_of(spec.project.name, row.name, before)),
    ) as change:
        saved = desk.store.workflows.apply(
            changed, definition, version_of(definition), delete_others=False, expected=revision
        )
        change.after = text
    return detail_of(desk, actor, saved, [passing] if passing else [])


def lasts_until(origin: str) -> str | None:
    """Why what is changed here may not last; None: it does."""
    if origin in ("store", "import"):
        return None
    return f"it came from {origin}: what is changed here lasts until that is applied again"


def delete(desk: Desk, actor: Actor, workflow: str, revision: int | None) -> None:
    """Take it and its triggers out of use, on every instance; its work orders stay."""
    row = workflow_of(desk, actor, "workflows.edit", workflow)
    if revision is not None and row.updated_at != revision:
        raise Changed("the workflow was changed meanwhile", received=revision, hint="look at it again")
    with audited(desk.store, actor, "workflows.delete", f"workflow/{row.id}", project=row.project_id, before=row.name):
        desk.store.workflows.delete(row.id)


def _checked(
    desk: Desk, actor: Actor, text: str, project: ProjectRow | None, row: WorkflowRow | None
) -> SubmittedWorkflow:
    limits = limits_of(desk, actor, "workflows.edit", project.id if project else None)
    triggers = desk.store.triggers.list(workflow_id=row.id) if row else []
    stored = Stored(definition=_definition(desk, row), triggers=tuple(each.name for each in triggers))
    return check_workflow(text, limits, stored)


def _definition(desk: Desk, row: WorkflowRow | None) -> dict[str, Any]:
    snapshot = desk.store.workflows.snapshot(row.snapshot_id) if row and row.snapshot_id else None
    return snapshot.definition if snapshot else {}


def _valid(found: SubmittedWorkflow) -> WorkflowSpec:
    if found.spec is None:
        raise InvalidConfigError(found.problems)
    return found.spec


def _named(row: WorkflowRow, project: ProjectRow | None, found: SubmittedWorkflow) -> SubmittedWorkflow:
    spec = found.spec
    if spec is None or (spec.name == row.name and project is not None and spec.project.name == project.name):
        return found
    problem = Problem(file=NAME, path="name", message="project and name cannot be changed", received=spec.full_name)
    return SubmittedWorkflow(problems=[problem])


def _may_feed(actor: Actor, spec: WorkflowSpec) -> None:
    """Work orders may be another project's: they are for those whose role holds everywhere."""
    if any(step.action == "work_order" for step in spec.steps):
        require(actor, "workflows.edit")
