"""Workflows that come through the API: what callers may not name is refused, steps that they leave as they are shown
stay as they are stored. Their triggers are another matter, with a form of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.documents import Document, read_text
from penstock.config.loading import Loaded
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.references import find_references
from penstock.config.secret_values import SECRET, resolve, shown
from penstock.config.workflow import WorkflowSpec
from penstock.config.workflow_loading import is_workflow, load_workflow
from penstock.core.declarations import walk
from penstock.core.errors import ConfigError
from penstock.core.secrets import MASK, secrets_at_key
from penstock.pipeline.policy import Step, step_places, workflow_step
from penstock.service.lightning.choices import written
from penstock.service.refusals import Limits, as_problems, without_secrets, written_problems
from penstock.service.workflow_checks import check_workflows
from penstock.workflows.definitions import SUBMITTED

NAME: Final = "workflow"
"""Stands where a file's name would."""
_STAND_IN: Final = {"hosts": [["localhost", "9092"]], "topics": ["any"], "initial_offset_reset_policy": "latest"}
_ELSEWHERE: Final = {
    "triggers": "triggers are made and changed apart from the document",
    "limits": "limits of the project are not set by a workflow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is there already."""

    definition: dict[str, Any] = field(default_factory=dict)
    triggers: tuple[str, ...] = ()
    """Their names; edges may begin at them."""


@dataclass(slots=True)
class SubmittedWorkflow:
    """What became of a text."""

    spec: WorkflowSpec | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    """Names of the steps that came through the API, now or earlier: instances hold them to their policy at each run."""

    def definition(self) -> dict[str, Any]:
        """As the store keeps it."""
        assert self.spec is not None  # noqa: S101 - asked only where there is one
        return self.spec.definition() | {SUBMITTED: self.submitted}


@dataclass(frozen=True, slots=True)
class Named:
    """The workflow that a text is about, as far as that can be read."""

    project: str | None
    name: str | None


def named_in(text: str) -> Named:
    """Which workflow a text is about."""
    for document in read_text(NAME, text).documents:
        if isinstance(document.data, dict):
            project, name = document.data.get("project"), document.data.get("name")
            if isinstance(project, dict):
                project = project.get("name")
            return Named(*(each if isinstance(each, str) else None for each in (project, name)))
    return Named(None, None)


def text_of(project: str, name: str, definition: dict[str, Any]) -> dict[str, Any]:
    """A document that says the same as a stored definition; secrets are masked."""
    own: dict[str, Any] = shown(written(definition | {"steps": definition.get("steps", [])}))
    edges = [dict(edge) for edge in definition.get("edges", [])]
    return {"kind": "workflow", "project": project, "name": name} | own | {"edges": edges}


def check_workflow(text: str, limits: Limits, stored: Stored) -> SubmittedWorkflow:
    """Everything that is wrong with it; nothing outside is touched but names that are resolved."""
    reading = read_text(NAME, text)
    problems = reading.problems or list(_shape(reading.documents))
    if problems:
        return SubmittedWorkflow(problems=problems)
    document = reading.documents[0]
    steps, same, problems = _restored(document, stored)
    problems += _refused(_only_new(document, same), limits)
    if problems:
        return SubmittedWorkflow(problems=sorted(problems, key=lambda problem: problem.line or 0))
    triggers = [{"name": name, "kafka_configuration": dict(_STAND_IN)} for name in stored.triggers]
    prepared = Document(
        document.file, document.data | {"steps": steps, "triggers": triggers}, document.tree, document.first_line
    )
    try:
        found = load_workflow(prepared, limits.variables or {})
    except InvalidConfigError as error:
        return SubmittedWorkflow(problems=list(error.problems))
    spec = found.spec.with_origin(None, stored.definition.get("folder"))
    loaded = Loaded(workflows=[spec], workflow_documents={spec.full_name: found.document})
    named = limits.secrets(dict(find_references(document.data)))
    check_workflows(loaded, named, kept=same)
    if loaded.problems:
        secrets = {secret for value in named.values() for secret in secrets_at_key(value)}
        return SubmittedWorkflow(problems=without_secrets(loaded.problems, secrets))
    before = stored.definition.get(SUBMITTED, ())
    submitted = [step.name for at, step in enumerate(spec.steps) if at not in same or step.name in before]
    return SubmittedWorkflow(spec, [], found.warnings, submitted)


def _shape(documents: list[Document]) -> Iterator[Problem]:
    first, *more = documents
    if more:
        yield more[0].problem((), "only one document is wanted here")
    elif not is_workflow(first.data):
        yield first.problem((), "a map with kind: workflow, name and steps is wanted at the top")
    else:
        project = first.data.get("project")
        if isinstance(project, dict) and set(project) != {"name"}:
            yield first.problem(("project",), "only the name of a project is taken from API callers")
        for key, message in _ELSEWHERE.items():
            if key in first.data:
                yield first.problem((key,), message)
        if not isinstance(first.data.get("steps"), list):
            yield first.problem(("steps",), "a list of steps is wanted")


def _restored(document: Document, stored: Stored) -> tuple[list[Any], set[int], list[Problem]]:
    """The steps with those that are as they were shown put back as they are stored; which these are; and what is wrong
    with others that have a mask in them."""
    own = written(stored.definition | {"steps": stored.definition.get("steps", [])})["steps"]
    known = {step["name"]: step for step in own}
    steps: list[Any] = []
    same: set[int] = set()
    problems: list[Problem] = []
    for index, step in enumerate(document.data["steps"]):
        before = known.get(step.get("name")) if isinstance(step, dict) and isinstance(step.get("name"), str) else None
        if before is not None and shown(before) == step:
            same.add(index)
            steps.append(before)
            continue
        steps.append(step)
        if _holds(step, lambda value: value == MASK):
            hint = "write {$ref: NAME} with a secret of the store; only a step that is not changed keeps its own"
            problems.append(document.problem(("steps", index), "the mask is not the secret", hint=hint))
        elif _holds(step, lambda value: isinstance(value, Mapping) and SECRET in value):
            message = "an encrypted text is not taken from callers"
            problems.append(document.problem(("steps", index), message, hint="write {$ref: NAME}"))
    return steps, same, problems


def _only_new(document: Document, same: set[int]) -> Document:
    """Without the steps that are there already: somebody was allowed to put them there."""
    steps = [None if index in same else step for index, step in enumerate(document.data["steps"])]
    return Document(document.file, document.data | {"steps": steps}, document.tree, document.first_line)


def _refused(document: Document, limits: Limits) -> list[Problem]:
    """What the new steps name and may not: as they are written, then with their secrets in place."""
    steps = list(_steps(document.data["steps"]))
    places = [*walk(WorkflowSpec, document.data), *(place for step in steps for place in step_places(step))]
    problems = list(written_problems(document, places, limits))
    referred = dict(find_references(document.data))
    if problems:
        refusals = [each for step in steps for each in limits.policy().step_refusals(step)]
        return problems + as_problems(document, refusals)
    named = limits.secrets(referred)
    try:
        resolved = resolve(document.data["steps"], None, named, limits.variables or {}).value
    except ConfigError as error:
        return [document.problem(("steps",), error.message, hint=error.hint)]
    policy = limits.policy(referred)
    return as_problems(document, [each for step in _steps(resolved) for each in policy.step_refusals(step)])


def _steps(steps: list[Any]) -> Iterator[Step]:
    for index, step in enumerate(steps):
        found = workflow_step(step, ("steps", index)) if isinstance(step, Mapping) else None
        if found is not None:
            yield found


def _holds(value: Any, wanted: Any) -> bool:
    if wanted(value):
        return True
    if isinstance(value, Mapping):
        return any(_holds(item, wanted) for item in value.values())
    return isinstance(value, list) and any(_holds(item, wanted) for item in value)
