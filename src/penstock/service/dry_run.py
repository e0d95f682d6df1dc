"""Tries every connection of a set of pipelines and triggers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.config.problems import Problem
from penstock.config.secret_values import resolve
from penstock.config.spec import PipelineSpec
from penstock.config.trigger import GROUP_PREFIX
from penstock.config.workflow import TriggerSpec
from penstock.core.errors import PenstockError
from penstock.kafka.probe import Finding, probe
from penstock.service.trigger_specs import source_of
from penstock.service.validation import load_checked

_OURS = ("config", "topic", "group")
"""Steps that fail because something must be changed, not because something is away."""


@dataclass(slots=True)
class DryRun:
    """How each step of each pipeline went."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    """By pipeline, or by `project/workflow/trigger`."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    @property
    def failed(self) -> list[Finding]:
        return [finding for findings in self.findings.values() for finding in findings if finding.ok is False]

    @property
    def unreachable(self) -> bool:
        """Whether something outside does not answer or does not let us in."""
        return any(finding.step not in _OURS for finding in self.failed)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": not self.failed and not self.problems,
            "pipelines": {name: [each.as_dict() for each in findings] for name, findings in self.findings.items()},
            "problems": [problem.as_dict() for problem in self.problems],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def dry_run(paths: Sequence[Path | str], timeout: float) -> DryRun:
    """Validate the files, then probe the connections of those that are valid."""
    loaded = load_checked(paths)
    findings = {spec.name: list(probe(spec, timeout)) for spec in loaded.specs}
    for workflow in loaded.workflows:
        for trigger in workflow.triggers:
            findings[f"{workflow.full_name}/{trigger.name}"] = list(_of_trigger(trigger, timeout))
    return DryRun(findings, loaded.problems, loaded.warnings)


def _of_trigger(trigger: TriggerSpec, timeout: float) -> Iterator[Finding]:
    config = trigger.kafka_configuration | {"group_id": trigger.group_id or f"{GROUP_PREFIX}new"}
    try:
        kafka = resolve(config, None, {}, os.environ)
    except PenstockError as error:
        yield Finding("config", "secrets", False, error.message, error.hint)
        return
    source = {"type": "kafka", "config": source_of(kafka)}
    yield from probe(
        PipelineSpec.model_validate({"name": trigger.name, "source": source, "action": {"type": "work_order"}}), timeout
    )
