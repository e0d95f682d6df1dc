"""Checks pipeline files without touching anything outside: models, plug-ins, and the plug-ins' own configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.act.registry import action_class, actions
from penstock.config.loading import Loaded, load
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.config.spec import PipelineSpec, StepSpec
from penstock.core.errors import PenstockError, PluginError
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import check_config
from penstock.core.registry import Registry
from penstock.core.secrets import Scrubber, find_secrets
from penstock.filter.registry import filters
from penstock.transform.registry import transforms


@dataclass(slots=True)
class Report:
    """What `penstock validate` says."""

    pipelines: list[PipelineSpec] = field(default_factory=list)
    """The ones that can be run."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def ok(self, *, strict: bool = False) -> bool:
        return not self.problems and not (strict and self.warnings)

    def as_dict(self) -> dict[str, Any]:
        return {
            "valid": self.ok(),
            "pipelines": [{"name": spec.name, "file": spec.origin} for spec in self.pipelines],
            "problems": [problem.as_dict() for problem in self.problems],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def validate(paths: Sequence[Path | str]) -> Report:
    """Everything that is wrong with these files and folders."""
    loaded = load_checked(paths)
    return Report(loaded.specs, loaded.problems, loaded.warnings)


def load_checked(paths: Sequence[Path | str]) -> Loaded:
    """Load files and refuse the specs whose plug-ins cannot be used; the others stay."""
    loaded = load(paths)
    for spec in list(loaded.specs):
        for problem in _plugin_problems(loaded, spec):
            loaded.refuse(spec, problem)
        loaded.warnings += _without_effect(loaded, spec)
    return loaded


def _without_effect(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    """Options that are accepted and checked, but that this version does not act on yet: nobody shall rely on them."""
    options = spec.options
    written = {
        ("retry",): options.retry.attempts > 1,
        ("rate_limit",): options.rate_limit is not None,
        ("dead_letter", "topic"): options.dead_letter.topic is not None,
        ("dead_letter", "file"): options.dead_letter.file is not None,
        ("breaker",): "breaker" in options.model_fields_set and options.breaker.enabled,
        ("timeout",): "timeout" in options.model_fields_set,
    }
    for path, is_written in written.items():
        if is_written:
            yield loaded.problem(spec, ("options", *path), "has no effect in this version yet")


def load_specs(paths: Sequence[Path | str]) -> list[PipelineSpec]:
    """The specs of these files; `InvalidConfigError` where any of them cannot be used."""
    loaded = load(paths)
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    return loaded.specs


def folder_of(spec: PipelineSpec) -> str | None:
    """The folder of the spec's file, where its relative paths begin."""
    return str(Path(spec.origin).parent) if spec.origin else None


def _plugin_problems(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    scrubber = Scrubber(find_secrets(spec.model_dump()))
    context = PipelineContext(spec.name, folder=folder_of(spec), source=spec.source.config)
    steps: list[tuple[KeyPath, StepSpec, Registry[Any]]] = [
        *((("filters", i), step, filters) for i, step in enumerate(spec.filters)),
        *((("transform", i), step, transforms) for i, step in enumerate(spec.transform)),
        (("action",), spec.action, actions),
    ]
    for path, step, registry in steps:
        try:
            _check_step(step, registry, context)
        except PenstockError as error:
            where = "type" if isinstance(error, PluginError) and error.received == step.type else "config"
            received = scrubber.scrub(str(error.received)) if error.received is not None else None
            allowed = tuple(map(str, error.allowed)) if isinstance(error.allowed, (list, tuple)) else None
            yield loaded.problem(
                spec,
                (*path, where),
                scrubber.scrub(error.message),
                received=received,
                allowed=allowed,
                hint=scrubber.scrub(error.hint) if error.hint else None,
            )


def _check_step(step: StepSpec, registry: Registry[Any], context: PipelineContext) -> None:
    if registry is actions:
        check_config(action_class(step.type, step.config, context.folder), step.config)
        return
    check_config(registry.resolve(step.type, context.folder), step.config)
    if step.type in registry.builtin:
        # Built-in filters and transforms touch nothing outside: making one finds out what its model cannot know.
        registry.create(step.type, step.config, context)
