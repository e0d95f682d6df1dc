"""Checks the steps of workflows without running them: functions and actions exist, and take their configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.act.registry import check_action
from penstock.config.loading import Loaded
from penstock.config.secret_values import is_kept, resolve
from penstock.config.workflow import WorkflowSpec, WorkflowStep
from penstock.core.errors import PenstockError
from penstock.core.plugin_config import parse_config
from penstock.core.secrets import MASK, Scrubber


def check_workflows(loaded: Loaded) -> None:
    """Take workflows back whose steps cannot be run."""
    for spec in list(loaded.workflows):
        for index, step in enumerate(spec.steps):
            _check(loaded, spec, index, step)


def _check(loaded: Loaded, spec: WorkflowSpec, index: int, step: WorkflowStep) -> None:
    secrets: frozenset[str] = frozenset()
    try:
        folder = Path(spec.folder) if spec.folder else None
        # Named secrets are the store's: what they say is not known here, only that they are texts.
        found = resolve(_with_stand_ins(step.definition()["config"]), None, {}, os.environ, folder)
        secrets = found.secrets
        _check_step(step.kind, found.value, spec.folder)
    except PenstockError as error:
        scrub = Scrubber(secrets).scrub
        loaded.refuse_workflow(
            spec,
            ("steps", index, step.kind),
            scrub(error.message),
            received=None if error.received is None else scrub(str(error.received)),
            allowed=tuple(map(str, error.allowed)) if isinstance(error.allowed, (list, tuple)) else None,
            hint=scrub(error.hint) if error.hint else None,
        )


def _with_stand_ins(config: Any) -> Any:
    if isinstance(config, Mapping):
        return MASK if is_kept(config) else {key: _with_stand_ins(value) for key, value in config.items()}
    return [_with_stand_ins(value) for value in config] if isinstance(config, list) else config


def _check_step(kind: str, config: dict[str, Any], folder: str | None) -> None:
    # The kinds bring HTTP clients and more along; checking files that have none of them costs nothing.
    if kind == "python":
        from penstock.workflows.steps.python import PythonStep  # noqa: PLC0415

        PythonStep(config, folder).close()
    elif kind == "command":
        from penstock.workflows.steps.command import CommandStepConfig  # noqa: PLC0415

        parse_config(CommandStepConfig, config, "command")
    elif kind == "http":
        from penstock.workflows.steps.http import HttpStepConfig  # noqa: PLC0415

        parse_config(HttpStepConfig, config, "http")
    else:
        check_action(config["type"], config["config"], folder)
