"""Checks the steps of workflows without running them: functions and actions exist, and take their configuration."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.act.registry import check_action
from penstock.config.loading import Loaded
from penstock.config.problems import Path as KeyPath
from penstock.config.references import References
from penstock.config.secret_values import is_kept, resolve
from penstock.config.workflow import WorkflowSpec, WorkflowStep
from penstock.core.declarations import Address
from penstock.core.errors import PenstockError
from penstock.core.plugin_config import parse_config
from penstock.core.secrets import MASK, Scrubber
from penstock.pipeline.policy import Step, step_places

_STAND_INS: Final = {
    "url": "https://reference.invalid/",
    "database": "postgresql://reference.invalid/database",
    "notification": "json://reference.invalid/",
}
"""Addresses in the place of secret ones."""


def check_workflows(loaded: Loaded, named: Mapping[str, str] | None = None, kept: Collection[int] = ()) -> None:
    """Take workflows back whose steps cannot be run. `named` are secrets that steps refer to; those that are not known
    here are taken for what their fields want. Steps that are `kept` are known to be right."""
    for spec in list(loaded.workflows):
        for index, step in enumerate(spec.steps):
            if index not in kept:
                _check(loaded, spec, index, step, named or {})


def _check(loaded: Loaded, spec: WorkflowSpec, index: int, step: WorkflowStep, named: Mapping[str, str]) -> None:
    secrets: frozenset[str] = frozenset()
    try:
        folder = Path(spec.folder) if spec.folder else None
        written = References(named).put(step.definition()["config"])
        found = resolve(_with_stand_ins(step.kind, written), None, {}, os.environ, folder)
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


def _with_stand_ins(kind: str, config: dict[str, Any]) -> Any:
    """Named secrets are the store's: what they say is not known here, only what their fields want."""
    if not any(is_kept(value) for value in _values(config)):
        return config
    main = {"action": "type"}.get(kind)
    step = Step(
        kind, str(config.get("type")), config.get("config") if main else config, (), ("config",) if main else ()
    )
    forms = {place.path: found.form for place in step_places(step) if (found := place.find(Address)) is not None}

    def put(value: Any, path: KeyPath) -> Any:
        if isinstance(value, Mapping):
            if is_kept(value):
                form = next((form for at, form in forms.items() if path[: len(at)] == at), None)
                return _STAND_INS.get(form or "", MASK)
            return {key: put(item, (*path, key)) for key, item in value.items()}
        return [put(item, (*path, index)) for index, item in enumerate(value)] if isinstance(value, list) else value

    return put(config, ())


def _values(value: Any) -> Iterator[Any]:
    yield value
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for item in inside:
        yield from _values(item)


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
