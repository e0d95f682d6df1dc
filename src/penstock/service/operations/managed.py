"""Pipelines that are kept in the store: made, replaced, rolled back and removed."""

from __future__ import annotations

from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.spec import PipelineSpec
from penstock.core.errors import PenstockError, Terminal
from penstock.service.access import Actor, require, require_somewhere
from penstock.service.audit import audited
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import PipelineDetail, ProblemView, Validation
from penstock.service.operations.pipelines import get_pipeline
from penstock.service.operations.scoping import limits_of, require_readable
from penstock.service.operations.versions import known_spec, version_text
from penstock.service.submitted import NAME, Submitted, check_submitted, require_valid
from penstock.service.trigger_specs import PREFIX
from penstock.store import ManagedRow, Taken


class NotManaged(PenstockError, Terminal):
    """The pipeline is defined by a file, and changed there."""

    code = "not_managed"


def validate_text(desk: Desk, actor: Actor, text: str) -> Validation:
    """What is right and wrong with a document, as far as this actor may use it; nothing is kept."""
    require_somewhere(actor, "pipelines.edit")
    found = _unreserved(check_submitted(text, limits_of(desk, actor, "pipelines.edit")))
    return Validation(
        valid=found.spec is not None,
        name=found.spec.name if found.spec else None,
        spec=found.shown(),
        problems=[ProblemView.of(problem) for problem in found.problems],
        warnings=[ProblemView.of(warning) for warning in found.warnings],
    )


def create(desk: Desk, actor: Actor, text: str, *, project: str | None = None) -> PipelineDetail:
    """Keep a new one; `Taken` where a pipeline, or a file, has its name."""
    require(actor, "pipelines.edit", project)
    _known_project(desk, project)
    spec = require_valid(_unreserved(check_submitted(text, limits_of(desk, actor, "pipelines.edit", project))))
    _may_read_and_feed(desk, actor, spec)
    _require_free(desk, spec.name, project)
    with audited(desk.store, actor, "pipelines.create", f"pipeline/{spec.name}", project=project) as change:
        desk.store.managed.create(spec.name, text, by=actor.name, project_id=project)
        change.after = text
    desk.forget()
    return get_pipeline(desk, actor, spec.name)


def replace(desk: Desk, actor: Actor, name: str, text: str, revision: int | None) -> PipelineDetail:
    """Keep another document; `Changed` where the revision is not this one."""
    row, project = _managed(desk, actor, name)
    spec = require_valid(_named(name, check_submitted(text, limits_of(desk, actor, "pipelines.edit", project))))
    _may_read_and_feed(desk, actor, spec)
    subject = f"pipeline/{spec.name}"
    with audited(desk.store, actor, "pipelines.replace", subject, project=project, before=row.text) as change:
        desk.store.managed.replace(name, text, revision=revision, by=actor.name)
        change.after = text
    desk.forget()
    return get_pipeline(desk, actor, name)


def rollback(desk: Desk, actor: Actor, name: str, version: str, revision: int | None) -> PipelineDetail:
    """Keep an older version's document again; it is checked like a new one."""
    _managed(desk, actor, name)
    return replace(desk, actor, name, version_text(desk, actor, name, version).text, revision)


def delete(desk: Desk, actor: Actor, name: str, revision: int | None) -> None:
    """Keep it no longer; its versions, dead letters and history stay."""
    row, project = _managed(desk, actor, name)
    with audited(desk.store, actor, "pipelines.delete", f"pipeline/{name}", project=project, before=row.text):
        desk.store.managed.delete(name, revision=revision, by=actor.name)
    desk.forget()


def _managed(desk: Desk, actor: Actor, name: str) -> tuple[ManagedRow, str | None]:
    project = desk.pipeline(actor, "pipelines.edit", name)
    row = desk.store.managed.get(name)
    if row is not None:
        return row, project
    if name.startswith(PREFIX):
        raise NotManaged(f"{name} is what a trigger runs", received=name, hint="change the trigger")
    if desk.store.managed.was_deleted(name):
        raise NotManaged(f"{name} is no longer kept in the store", received=name, hint="keep it again as a new one")
    raise NotManaged(f"{name} is defined by a file", received=name, hint="change the file")


def _require_free(desk: Desk, name: str, project: str | None) -> None:
    """Raise `Taken` unless nothing has the name, or only what is left of a pipeline of the same project."""
    now = desk.snapshot()
    if name in now.managed:
        return  # the store itself refuses it, whoever is quicker
    left = desk.store.managed.was_deleted(name)
    if left and now.projects.get(name) != project:
        # Its versions, dead letters and history would be another project's to see.
        raise Taken("a pipeline of this name was another project's", received=name, hint="name it otherwise")
    if name in now.names and (not left or known_spec(desk, name)[2] is not None):
        raise Taken("there is a pipeline of this name in a file", received=name, hint="name it otherwise")


def _unreserved(found: Submitted) -> Submitted:
    """A trigger's pipeline is called by the trigger's id: whoever took that name would be taken for its owner."""
    if found.spec is not None and found.spec.name.startswith(PREFIX):
        message = f"names that begin with {PREFIX!r} are for what triggers run"
        problem = Problem(file=NAME, path="name", message=message, received=found.spec.name, hint="name it otherwise")
        return Submitted(problems=[problem])
    return found


def _may_read_and_feed(desk: Desk, actor: Actor, spec: PipelineSpec) -> None:
    """Work orders may be another project's: they are for those whose role holds everywhere."""
    require_readable(desk, actor, [] if spec.source.is_foreign else spec.source.config.subscription)
    if spec.action.type == "work_order":
        require(actor, "pipelines.edit")


def _named(name: str, found: Submitted) -> Submitted:
    if found.spec is not None and found.spec.name != name:
        problem = Problem(
            file=NAME, path="name", message=f"the name {name!r} cannot be changed", received=found.spec.name
        )
        return Submitted(problems=[problem])
    return found


def _known_project(desk: Desk, project: str | None) -> None:
    if project is not None and project not in {row.id for row in desk.store.people.projects()}:
        problem = Problem(path="project", message="there is no such project", received=project)
        raise InvalidConfigError([problem])
