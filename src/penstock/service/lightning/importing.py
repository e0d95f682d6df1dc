"""Brings a project of Lightning into the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from penstock.config.documents import Document
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.trigger import Checked, check_kafka, in_seconds, missing_secrets
from penstock.config.workflow import TriggerSpec, WorkflowSpec, WorkflowStep
from penstock.config.workflow_graph import graph_problems
from penstock.core.errors import ConfigError
from penstock.core.ids import is_id
from penstock.service.lightning.cloak import KEY_VARIABLE, Cloak, is_cloaked
from penstock.service.lightning.model import LightningProject, LightningTrigger, LightningWorkflow
from penstock.service.lightning.reading import read_project
from penstock.service.lightning.secret_pointers import without_pointers
from penstock.service.secrets import SecretBox
from penstock.service.workflows import apply_workflow, stable_id
from penstock.store import Store
from penstock.store.work.model import TriggerRow

_CREDENTIALS: Final = ("username", "password")

Steps = Callable[[LightningWorkflow], dict[str, Any]]
"""What a workflow's triggers start: `steps`, `edges` and settings of a workflow document."""


class _ImportedWorkflow(WorkflowSpec):
    """One may come without steps, until somebody chooses some."""

    steps: list[WorkflowStep] = Field(default_factory=list)
    """As of any workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChoices:
    """What a file does not say."""

    project: str | None = None
    """Name of the project, if not the file's."""
    steps: Steps | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    """Consumer groups by id or `workflow/name` of the trigger."""
    cloak: Cloak | None = None
    username: str | None = None
    password: str | None = None
    """For triggers that log in and whose own credentials are not there."""
    divide_timeouts: bool = False
    """True: timeouts of 1000 and more were meant in milliseconds."""
    dry_run: bool = False


@dataclass(slots=True, kw_only=True)
class TriggerReport:
    """What became of one trigger."""

    name: str
    workflow: str
    id: str
    group_id: str | None
    enabled: bool
    was_enabled: bool
    remarks: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What an import did, and what of the file it did not use."""

    project: str
    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    triggers: list[TriggerReport] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def import_project(store: Store, box: SecretBox, file: Path, choices: ImportChoices) -> ImportReport:
    """Import a file: all of it, or nothing where something is wrong with it."""
    project, document = read_project(file, choices.project)
    report = ImportReport(project=project.name, ignored=list(map(str, project.ignored)), dry_run=choices.dry_run)
    bringing = _Bringing(store, project, document, choices, report)
    specs = [(each, bringing.spec(each)) for each in project.workflows if not each.delete]
    if bringing.problems:
        raise InvalidConfigError(bringing.problems)
    if not choices.dry_run:
        for workflow, spec in specs:
            bringing.save(box, workflow, spec)
    for workflow in project.workflows:
        if workflow.delete:
            bringing.delete(workflow)
    return report


class _Bringing:
    """One import."""

    def __init__(
        self, store: Store, project: LightningProject, document: Document, choices: ImportChoices, report: ImportReport
    ) -> None:
        self.problems: list[Problem] = []
        self._store, self._project, self._choices, self._report = store, project, choices, report
        self._document = document
        row = store.projects.get(project.name)
        self._project_id = row.id if row else None
        self._groups = {row.kafka_configuration.get("group_id"): row.id for row in store.triggers.list()}

    # -- what it becomes --------------------------------------------------------------------

    def spec(self, workflow: LightningWorkflow) -> WorkflowSpec:
        """The workflow as Penstock has it; what is wrong goes to `problems`."""
        known = self._known(workflow)
        triggers = [self._trigger(workflow, trigger, known.get(trigger.name)) for trigger in workflow.triggers]
        missing: list[str] = []
        chosen = self._choices.steps(workflow) if self._choices.steps else None
        own = without_pointers(chosen or workflow.penstock, self._store, missing)
        for name in missing:
            self._report.warnings.append(f"{workflow.name}: the secret at {name} is not in this store")
        if not own.get("steps") and workflow.triggers:
            message = f"{workflow.name}: nothing is chosen for its messages to start; its triggers stay disabled"
            self._report.warnings.append(message)
            triggers = [trigger.model_copy(update={"enabled": False}) for trigger in triggers]
        data = {"project": {"name": self._project.name, "description": self._project.description}} | own
        try:
            spec: WorkflowSpec = _ImportedWorkflow.model_validate(data | {"name": workflow.name})
        except ValidationError as error:
            self._refuse(workflow.path, f"its steps cannot be used: {error.errors()[0]['msg']}")
            return _ImportedWorkflow(name=workflow.name)
        whole = spec.model_copy(update={"triggers": triggers}).with_origin("import", None)
        for path, message, hint in graph_problems(whole):
            self._refuse((*workflow.path, *path), message, hint=hint)
        return whole

    def _known(self, workflow: LightningWorkflow) -> dict[str, TriggerRow]:
        if self._project_id is None:
            return {}
        row = self._store.workflows.get(self._project_id, workflow.name)
        return {each.name: each for each in self._store.triggers.list(workflow_id=row.id)} if row else {}

    def _trigger(
        self, workflow: LightningWorkflow, trigger: LightningTrigger, before: TriggerRow | None
    ) -> TriggerSpec:
        remarks: list[str] = []
        group = (
            self._choices.groups.get(trigger.id or "")
            or self._choices.groups.get(f"{workflow.name}/{trigger.name}")
            or trigger.group_id
        )
        checked = self._checked(trigger, group, remarks)
        config = checked.configuration
        lacking = list(missing_secrets(config))
        # Where it goes on must be looked at first, which is what `penstock triggers enable` does.
        enabled = before.enabled if before is not None and not lacking else False
        data = {key: value for key, value in config.items() if key != "group_id"}
        found = TriggerSpec.model_validate({"name": trigger.name, "comment": trigger.comment, **trigger.options})
        identity = before.id if before else self._id(workflow, trigger)
        if group and self._groups.setdefault(group, identity) != identity:
            self._refuse(trigger.path, f"the group {group} is that of another trigger", received=group)
        if not group:
            remarks.append("no group is given: it gets one of its own, and begins as its offset policy says")
        if lacking:
            remarks.append(f"{' and '.join(lacking)} wanted: import again with --username and --password")
        self._report.triggers.append(
            TriggerReport(
                name=trigger.name,
                workflow=workflow.name,
                id=identity,
                group_id=(before.kafka_configuration.get("group_id") if before else None) or group,
                enabled=enabled,
                was_enabled=trigger.enabled,
                remarks=remarks,
            )
        )
        return found.model_copy(update={"enabled": enabled, "kafka_configuration": data, "group_id": group})

    def _checked(self, trigger: LightningTrigger, group: str | None, remarks: list[str]) -> Checked:
        written = trigger.configuration
        if isinstance(written, Mapping):
            written = self._with_credentials(dict(written), remarks)
            if self._choices.divide_timeouts:
                written = in_seconds(written)
        checked = check_kafka(written, None, group)
        lacking = list(missing_secrets(checked.configuration))
        for error in checked.errors:
            if error.field not in lacking:  # a trigger without them is imported all the same, and waits
                path = (*trigger.path, *([error.field] if error.field else []))
                self._refuse(path, error.message, received=error.received, hint=error.hint)
        remarks += [f"{each.field}: {each.message}; --divide-timeouts makes seconds of it" for each in checked.warnings]
        return checked

    def _with_credentials(self, written: dict[str, Any], remarks: list[str]) -> dict[str, Any]:
        missing: list[str] = []
        found: dict[str, Any] = without_pointers(written, self._store, missing)
        remarks += [f"the secret at {name} is not in this store" for name in missing]
        for name in _CREDENTIALS:
            if is_cloaked(found.get(name)):
                found[name] = self._choices.cloak.decrypt(found[name]) if self._choices.cloak else None
                if found[name] is None:
                    remarks.append(f"{name} is encrypted: set {KEY_VARIABLE} to read it")
            if not found.get(name) and found.get("sasl"):
                found[name] = getattr(self._choices, name)
        return found

    def _id(self, workflow: LightningWorkflow, trigger: LightningTrigger) -> str:
        if trigger.id is None:
            return stable_id(self._project.name, workflow.name, trigger.name)
        if not is_id(trigger.id):
            self._refuse(trigger.path[:-1], f"{trigger.id!r} is no id", received=trigger.id)
        return str(trigger.id).lower()

    def _refuse(self, path: Any, message: str, **details: Any) -> None:
        self.problems.append(self._document.problem(path, message, **details))

    # -- what is written --------------------------------------------------------------------

    def save(self, box: SecretBox, workflow: LightningWorkflow, spec: WorkflowSpec) -> None:
        """Bring it into the store; jobs and edges stay as text."""
        kept = {"jobs": workflow.jobs, "edges": workflow.edges, "id": workflow.id}
        ids = {each.name: self._id(workflow, each) for each in workflow.triggers}
        done = apply_workflow(store=self._store, box=box, spec=spec, extra={"lightning": kept}, ids=ids)
        word = "created" if done.is_new else "changed" if done.changed else "unchanged"
        getattr(self._report, word).append(workflow.name)
        self._report.warnings += done.warnings
        by_name = {row.name: row for row in done.triggers}
        for each in self._report.triggers:
            if each.workflow == workflow.name:
                each.group_id = by_name[each.name].kafka_configuration["group_id"]
                each.enabled = by_name[each.name].enabled

    def delete(self, workflow: LightningWorkflow) -> None:
        """What the file says is gone goes."""
        rows = self._store.workflows.list(self._project_id) if self._project_id else []
        found = [row for row in rows if workflow.name == row.name or workflow.id in (row.id, _old_id(self._store, row))]
        if not found:
            raise ConfigError(f"there is no workflow {workflow.name!r} to delete", received=workflow.name)
        if not self._choices.dry_run:
            self._store.workflows.delete(found[0].id)
        self._report.deleted.append(found[0].name)


def _old_id(store: Store, row: Any) -> str | None:
    snapshot = store.workflows.snapshot(row.snapshot_id) if row.snapshot_id else None
    return snapshot.definition.get("lightning", {}).get("id") if snapshot else None
