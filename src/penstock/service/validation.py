"""Checks pipeline files without touching anything outside: models, plug-ins, and the plug-ins' own configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.act.registry import action_class, actions, has_cursor
from penstock.config.loading import Loaded, load
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.config.source import ForeignSourceConfig
from penstock.config.spec import ConnectionSpec, PipelineSpec, StepSpec
from penstock.config.workflow import WorkflowSpec
from penstock.core.errors import PenstockError, PluginError
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import check_config
from penstock.core.registry import Registry
from penstock.core.secrets import Scrubber, find_secrets
from penstock.datahub.sources import sources
from penstock.filter.registry import filters
from penstock.service.client_checks import client_remarks
from penstock.service.predicate_checks import predicate_warnings
from penstock.service.wherehows import lookups
from penstock.service.workflow_checks import check_workflows
from penstock.transform.registry import transforms


@dataclass(slots=True)
class Report:
    """What `penstock validate` says."""

    pipelines: list[PipelineSpec] = field(default_factory=list)
    """The ones that can be run."""
    workflows: list[WorkflowSpec] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def ok(self, *, strict: bool = False) -> bool:
        return not self.problems and not (strict and self.warnings)

    def as_dict(self) -> dict[str, Any]:
        return {
            "valid": self.ok(),
            "pipelines": [{"name": spec.name, "file": spec.origin} for spec in self.pipelines],
            "workflows": [{"name": spec.full_name, "file": spec.origin} for spec in self.workflows],
            "problems": [problem.as_dict() for problem in self.problems],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }


def validate(paths: Sequence[Path | str]) -> Report:
    """Everything that is wrong with these files and folders."""
    loaded = load_checked(paths)
    return Report(loaded.specs, loaded.workflows, loaded.problems, loaded.warnings)


def load_checked(paths: Sequence[Path | str]) -> Loaded:
    """Load files and refuse the specs whose plug-ins cannot be used; the others stay."""
    with lookups() as found:
        return checked(load(paths, lookups=found))


def checked(loaded: Loaded) -> Loaded:
    """Refuse the specs whose plug-ins cannot be used."""
    for spec in list(loaded.specs):
        loaded.warnings += predicate_warnings(loaded, spec)
        remarks = list(client_remarks(loaded, spec))
        loaded.warnings += [said for is_problem, said in remarks if not is_problem]
        problems = [said for is_problem, said in remarks if is_problem]
        problems += (
            *_plugin_problems(loaded, spec),
            *_loops(loaded, spec),
            *_homeless(loaded, spec),
            *_idle_breaker(loaded, spec),
            *_in_order(loaded, spec),
        )
        for problem in problems:
            loaded.refuse(spec, problem)
    check_workflows(loaded)
    return loaded


def _loops(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    """A pipeline that reads what it writes never ends."""
    reads = spec.source.config
    letters = spec.options.dead_letter.topic
    if letters and reads.subscribed([letters]):
        message = f"dead letters would come back: the pipeline reads topic {letters} itself"
        yield loaded.problem(spec, ("options", "dead_letter", "topic"), message, received=letters)
    topic = spec.action.config.get("topic")
    if spec.action.type == "kafka" and isinstance(topic, str) and reads.subscribed([topic]) and _to_its_source(spec):
        message = f"the pipeline would read its own output: topic {topic} is one of its sources"
        yield loaded.problem(spec, ("action", "config", "topic"), message, received=topic)


def _homeless(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    """What is produced goes to the cluster that is read from, where there is one."""
    if spec.source.is_foreign and spec.action.type == "kafka" and not spec.action.config.get("connection"):
        message = "required: the pipeline does not read from Kafka, so it has no cluster to write to"
        yield loaded.problem(spec, ("action", "config", "connection"), message)


def _idle_breaker(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    # Only where it was written: the default is there for specs that are changed to CONTINUE.
    options = spec.options
    if options.failure_mode == "THROW" and "breaker" in options.model_fields_set and options.breaker.enabled:
        message = "it can never trip: with failure_mode THROW the first failure stops the pipeline"
        hint = "leave it out, or let failure_mode be CONTINUE"
        yield loaded.problem(spec, ("options", "breaker"), message, hint=hint)


def _in_order(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    """A cursor is one number: events into a table are written in the order of their partition."""
    if not has_cursor(spec):
        return
    hint = f"leave it out: {spec.action.type} writes many events at once"
    if spec.options.concurrency != 1:
        yield loaded.problem(spec, ("options", "concurrency"), "must be 1 for a table", hint=hint)
    elif spec.ordering != "partition":
        yield loaded.problem(spec, ("options", "ordering"), "must be partition for a table", hint=hint)
    if spec.source.is_foreign or spec.source.config.stateless:
        message = "a table needs a consumer group: without one nothing says where its rows end"
        yield loaded.problem(spec, ("source",), message)


def _to_its_source(spec: PipelineSpec) -> bool:
    written = spec.action.config.get("connection")
    try:
        return not written or spec.source.config.connection.shares_cluster(ConnectionSpec.model_validate(written))
    except ValueError:
        return False  # the check of the action's own configuration says what is wrong with it


def load_specs(paths: Sequence[Path | str]) -> list[PipelineSpec]:
    """The specs of these files; `InvalidConfigError` where any of them cannot be used."""
    with lookups() as found:
        loaded = load(paths, lookups=found)
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    return loaded.specs


def _plugin_problems(loaded: Loaded, spec: PipelineSpec) -> Iterator[Problem]:
    scrubber = Scrubber(find_secrets(spec.model_dump()))
    context = PipelineContext(spec.name, folder=spec.folder, source=spec.source.config)
    steps: list[tuple[KeyPath, StepSpec, Registry[Any]]] = [
        *((("filters", i), step, filters) for i, step in enumerate(spec.filters)),
        *((("transform", i), step, transforms) for i, step in enumerate(spec.transform)),
        (("action",), spec.action, actions),
    ]
    if isinstance(reads := spec.source.config, ForeignSourceConfig):
        steps.insert(0, (("source",), StepSpec(type=spec.source.type, config=reads.own), sources))
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
    if step.type in registry.builtin and registry is not sources:
        # Built-in filters and transforms touch nothing outside: making one finds out what its model cannot know.
        registry.create(step.type, step.config, context)
