"""Tries every connection of a set of pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.config.problems import Problem
from penstock.kafka.probe import Finding, probe
from penstock.service.validation import load_checked

_OURS = ("config", "topic", "group")
"""Steps that fail because something must be changed, not because something is away."""


@dataclass(slots=True)
class DryRun:
    """How each step of each pipeline went."""

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    """By pipeline."""
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
    return DryRun(findings, loaded.problems, loaded.warnings)
