"""Makes workflows of `kind: workflow` documents: all that is wrong at once, each mistake at its line."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from penstock.config.documents import Document
from penstock.config.expansion import expand_document
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.config.translation import problems_of
from penstock.config.trigger import FIELDS, Checked, check_kafka
from penstock.config.workflow import STEP_KINDS, TriggerSpec, WorkflowSpec
from penstock.config.workflow_graph import graph_problems
from penstock.core.secrets import is_secret_key

KIND = "workflow"


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """A workflow, its document and what is worth a remark."""

    spec: WorkflowSpec
    document: WorkflowDocument
    warnings: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WorkflowDocument(Document):
    """Triggers may be a map, and Kafka's fields may stand beside `kafka_configuration`: found as they were written."""

    def problem(self, path: KeyPath, message: str, **details: Any) -> Problem:
        return Document.problem(self, self._written(path), message, **details)

    def _written(self, path: KeyPath) -> KeyPath:
        if path[:1] != ("triggers",) or len(path) == 1 or not isinstance(path[1], int):
            return path
        triggers, index, rest = self.data.get("triggers"), path[1], path[2:]
        place: str | int = list(triggers)[index] if isinstance(triggers, dict) else index
        trigger = triggers[place]
        if rest[:1] == ("kafka_configuration",) and len(rest) > 1 and isinstance(trigger, dict) and rest[1] in trigger:
            rest = rest[1:]
        return ("triggers", place, *rest)


def is_workflow(data: Any) -> bool:
    """Whether a document is one of a workflow."""
    return isinstance(data, dict) and data.get("kind") == KIND


def load_workflow(given: Document, environ: MutableMapping[str, str]) -> LoadedWorkflow:
    """The workflow of a document; `InvalidConfigError` has all that is wrong with it."""
    document = WorkflowDocument(given.file, given.data, given.tree, given.first_line, given.text)
    written = {key: item for key, item in document.data.items() if key != "kind"}
    expanded = expand_document(document, written, environ)
    problems = list(expanded.problems)
    data = _with_references(written, expanded.data)
    spec = None
    try:
        spec = WorkflowSpec.model_validate(data)
    except ValidationError as error:
        said = [problem.path for problem in expanded.problems]
        found = problems_of(error, WorkflowSpec, document, expanded.secrets)
        problems += [problem for problem in found if not any(path.startswith(problem.path) for path in said)]
    checks = list(_checked_triggers(data, spec))
    problems += [
        document.problem(
            _at(index, error.field), error.message, received=error.received, allowed=error.allowed, hint=error.hint
        )
        for index, checked in checks
        for error in checked.errors
    ]
    if spec is not None:
        problems += [document.problem(path, message, hint=hint) for path, message, hint in graph_problems(spec)]
    if problems or spec is None:
        raise InvalidConfigError(sorted(problems, key=lambda problem: problem.line or 0))
    warnings = [
        document.problem(_at(index, warning.field), warning.message, received=warning.received, hint=warning.hint)
        for index, checked in checks
        for warning in checked.warnings
    ]
    normal = [_normal(trigger, checked) for trigger, (_, checked) in zip(spec.triggers, checks, strict=True)]
    settled = spec.model_copy(update={"triggers": normal}).with_origin(document.origin, str(document.folder))
    return LoadedWorkflow(settled, document, warnings)


def _at(index: int, field: str) -> KeyPath:
    return ("triggers", index, "kafka_configuration", *([field] if field else []))


def _with_references(written: Any, expanded: Any, path: KeyPath = ()) -> Any:
    """What was expanded, but for places of secrets and steps: there the text stays, and is expanded where it is used,
    so that the store never sees what it stands for."""
    if isinstance(written, dict):
        return {key: _with_references(item, expanded[key], (*path, key)) for key, item in written.items()}
    if isinstance(written, list):
        return [_with_references(item, expanded[index], (*path, index)) for index, item in enumerate(written)]
    return written if _is_left(path) else expanded


def _is_left(path: KeyPath) -> bool:
    if path[:1] == ("steps",) and len(path) > 2 and path[2] in (*STEP_KINDS, "config"):
        return True
    return any(is_secret_key(str(key)) or key in ("username", "ssl_key", "notify") for key in path)


def _checked_triggers(data: dict[str, Any], spec: WorkflowSpec | None) -> Iterator[tuple[int, Checked]]:
    if spec is not None:
        for index, trigger in enumerate(spec.triggers):
            yield index, check_kafka(_policy_of(trigger) | trigger.kafka_configuration)
        return
    # The rest of the document is wrong too: whatever of the triggers can be looked at is.
    triggers = data.get("triggers")
    listed = list(triggers.values()) if isinstance(triggers, dict) else triggers
    for index, trigger in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(trigger, dict) and isinstance(trigger.get("kafka_configuration") or {}, dict):
            beside = {key: trigger[key] for key in FIELDS if key in trigger}
            policy = {"initial_offset_reset_policy": "latest"} if "start" in trigger else {}
            yield index, check_kafka(policy | beside | (trigger.get("kafka_configuration") or {}))


def _policy_of(trigger: TriggerSpec) -> dict[str, str]:
    if trigger.start is None:
        return {}
    return {"initial_offset_reset_policy": f"{trigger.start:013d}" if isinstance(trigger.start, int) else trigger.start}


def _normal(trigger: TriggerSpec, checked: Checked) -> TriggerSpec:
    group = trigger.group_id or trigger.kafka_configuration.get("group_id")
    without = {key: value for key, value in checked.configuration.items() if key != "group_id"}
    return trigger.model_copy(update={"kafka_configuration": without, "group_id": group})
