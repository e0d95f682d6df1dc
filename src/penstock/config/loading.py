"""Loads pipeline files: every good spec, and for everything else a problem that says where and why."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from penstock.config.dialects.datahub import Compiled, LegacyFilter, as_written, compile_datahub, is_datahub
from penstock.config.dialects.wherehows_job import Lookups
from penstock.config.dialects.wherehows_loading import SUFFIXES as PROPERTIES_SUFFIXES
from penstock.config.dialects.wherehows_loading import Found, is_wherehows, load_properties, load_wherehows
from penstock.config.documents import Document, as_yaml_1_1, read_documents
from penstock.config.expansion import Expanded, expand_document
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.config.references import References
from penstock.config.remote import is_url, suffix_of
from penstock.config.source import MANAGED_PROPERTIES
from penstock.config.spec import PipelineSpec
from penstock.config.translation import problems_of
from penstock.config.workflow import WorkflowSpec
from penstock.config.workflow_loading import KIND as WORKFLOW
from penstock.config.workflow_loading import is_workflow, load_workflow
from penstock.core.secrets import find_secrets

_SUFFIXES = (".yml", ".yaml", ".json", ".toml", *PROPERTIES_SUFFIXES)
_IN_FOLDERS = (".yml", ".yaml", ".job")
_NOT_PIPELINES = ("penstock.yml", "penstock.yaml")
_TEST_CASES = (".test.yml", ".test.yaml")
_BOOL = TypeAdapter(bool)


@dataclass(slots=True)
class Loaded:
    """What a set of files gave."""

    specs: list[PipelineSpec] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    """The document of each spec, by name."""
    workflows: list[WorkflowSpec] = field(default_factory=list)
    workflow_documents: dict[str, Document] = field(default_factory=dict)
    """The document of each workflow, by `project/name`."""
    has_jobs: bool = False
    """Some of it is another system's to manage: WhereHows' jobs."""

    def problem(self, spec: PipelineSpec, path: KeyPath, message: str, **details: Any) -> Problem:
        """A problem found later (an unknown plug-in, for instance) at a key of a loaded spec."""
        document = self.documents[spec.name]
        return document.problem(as_written(path, document.data), message, **details)

    def refuse(self, spec: PipelineSpec, problem: Problem) -> None:
        """Take a spec back because of a problem that was found later."""
        self.specs = [kept for kept in self.specs if kept.name != spec.name]
        self.problems.append(problem)

    def refuse_workflow(self, spec: WorkflowSpec, path: KeyPath, message: str, **details: Any) -> None:
        """Take a workflow back because of what is wrong at one of its keys."""
        self.workflows = [kept for kept in self.workflows if kept.full_name != spec.full_name]
        self.problems.append(self.workflow_documents[spec.full_name].problem(path, message, **details))


def load(
    paths: Sequence[Path | str], environ: MutableMapping[str, str] | None = None, lookups: Lookups | None = None
) -> Loaded:
    """Load files, directories and addresses; one that is bad never stops the others.

    `lookups` answers what only layers above know; jobs in a database cannot be loaded without it.
    """
    loaded = Loaded()
    variables = os.environ if environ is None else environ
    seen: set[Path | str] = set()
    for file in _files(paths, loaded):
        identity = _identity(file)
        if identity not in seen:
            seen.add(identity)
            _load_file(file, variables, loaded, lookups)
    return loaded


def load_document(
    document: Document, environ: MutableMapping[str, str] | None, references: References | None = None
) -> Loaded:
    """Load one document that was read already, as those that come over the network are.

    Without `environ` nothing is expanded. `references` are put in place after the expansion, so that what a secret says
    is never expanded.
    """
    loaded = Loaded()
    try:
        _load_document(document, environ, loaded, references)
    except InvalidConfigError as error:
        loaded.problems += error.problems
    return loaded


def _identity(file: Path | str) -> Path | str:
    if isinstance(file, str):
        return file
    try:
        return file.resolve()
    except (OSError, RuntimeError):  # a link that leads to itself; reading it says so
        return file.absolute()


def _files(paths: Sequence[Path | str], loaded: Loaded) -> Iterator[Path | str]:
    """Paths, and addresses as texts."""
    for given in paths:
        if isinstance(given, str) and is_url(given):
            yield given
            continue
        path = Path(given)
        if not path.is_dir():
            yield path
            continue
        try:
            inside = sorted(entry for entry in path.iterdir() if entry.is_file() and is_pipeline_file(entry.name))
        except OSError as error:
            loaded.problems.append(Problem(file=str(path), message=f"cannot be read: {error.strerror}"))
            continue
        if not inside:
            loaded.problems.append(
                Problem(file=str(path), message="has no pipeline files (*.yml, *.yaml, *.job) in it")
            )
        yield from (entry for suffix in _IN_FOLDERS for entry in inside if entry.suffix == suffix)


def is_pipeline_file(name: str) -> bool:
    """Whether a file of this name is loaded when its folder is given."""
    if name.startswith(".") or name in _NOT_PIPELINES or name.endswith(_TEST_CASES):
        return False
    return name.endswith(_IN_FOLDERS)


def _load_file(file: Path | str, environ: MutableMapping[str, str], loaded: Loaded, lookups: Lookups | None) -> None:
    if isinstance(file, Path) and suffix_of(file.name) not in _SUFFIXES and not file.exists():
        loaded.problems.append(Problem(file=str(file), message="no such file or folder"))
        return
    if isinstance(file, Path) and suffix_of(file.name) not in _SUFFIXES:
        allowed = ", ".join(_SUFFIXES)
        problem = Problem(
            file=str(file), message="is not a pipeline file", allowed=_SUFFIXES, hint=f"allowed: {allowed}"
        )
        loaded.problems.append(problem)
        return
    if suffix_of(str(file)) in PROPERTIES_SUFFIXES:
        _take(load_properties(file, environ, lookups), loaded)
        return
    reading = read_documents(file)
    for document in reading.documents:
        try:
            if is_wherehows(document.data):
                _take(load_wherehows(document, environ, lookups), loaded)
            elif is_workflow(document.data):
                _add_workflow(document, environ, loaded)
            else:
                _load_document(document, environ, loaded)
        except InvalidConfigError as error:
            loaded.problems += error.problems
    loaded.problems += reading.problems


def _take(jobs: Iterable[Found], loaded: Loaded) -> None:
    loaded.has_jobs = True
    for job in jobs:
        loaded.problems += job.problems
        loaded.warnings += job.warnings
        if job.spec is not None and job.document is not None:
            try:
                _add(job.spec, job.document, loaded)
            except InvalidConfigError as error:
                loaded.problems += error.problems


def _add(spec: PipelineSpec, document: Document, loaded: Loaded) -> None:
    _refuse_taken(spec, document, loaded)
    loaded.specs.append(spec)
    loaded.documents[spec.name] = document


def _add_workflow(document: Document, environ: MutableMapping[str, str], loaded: Loaded) -> None:
    found = load_workflow(document, environ)
    name = found.spec.full_name
    if any(other.full_name == name for other in loaded.workflows):
        theirs = loaded.workflow_documents[name]
        message = f"the workflow {name!r} is in {theirs.file}:{theirs.place(('name',))[0]} already"
        raise InvalidConfigError([document.problem(("name",), message, received=found.spec.name, hint="say it once")])
    loaded.workflows.append(found.spec)
    loaded.workflow_documents[name] = found.document
    loaded.warnings += found.warnings


def _load_document(
    document: Document, environ: MutableMapping[str, str] | None, loaded: Loaded, references: References | None = None
) -> None:
    data = document.data
    if not isinstance(data, dict):
        raise InvalidConfigError([document.problem((), "a map with name, source and action is wanted at the top")])
    _refuse_other_kinds(document)
    if is_datahub(data):
        data = as_yaml_1_1(document)
    if not _enabled(document, data, environ):
        name = data.get("name")
        loaded.warnings.append(document.problem(("enabled",), f"pipeline {name!r} is disabled and was skipped"))
        return
    written = {key: item for key, item in data.items() if key != "kind"}
    spec, warnings = _build(document, written, environ, references)
    loaded.warnings += warnings
    _add(spec, document, loaded)


def _refuse_other_kinds(document: Document) -> None:
    kind = document.data.get("kind", "pipeline")
    if kind != "pipeline":
        message = f"documents of kind {kind!r} are not supported by this version"
        raise InvalidConfigError([document.problem(("kind",), message, received=kind, allowed=("pipeline", WORKFLOW))])
    if "dialect" in document.data:
        message = f"dialect {document.data['dialect']!r} is not supported by this version"
        raise InvalidConfigError(
            [document.problem(("dialect",), message, received=document.data["dialect"], allowed=("wherehows",))]
        )


def _enabled(document: Document, data: dict[str, Any], environ: MutableMapping[str, str] | None) -> bool:
    # Looked at before the rest: a disabled file may refer to variables that are not set.
    expanded = _expanded(document, {"enabled": data.get("enabled", True)}, environ)
    try:
        return _BOOL.validate_python(expanded.data["enabled"])
    except ValidationError:
        return True  # the full validation says what is wrong


def _expanded(document: Document, data: Any, environ: MutableMapping[str, str] | None) -> Expanded:
    return Expanded(data, find_secrets(data)) if environ is None else expand_document(document, data, environ)


def _build(
    document: Document,
    data: dict[str, Any],
    environ: MutableMapping[str, str] | None,
    references: References | None = None,
) -> tuple[PipelineSpec, list[Problem]]:
    expanded = _expanded(document, data, environ)
    if references is not None:
        expanded.data = references.put(expanded.data)
        expanded.secrets |= references.used
    compiled = Compiled(expanded.data)
    if is_datahub(expanded.data):
        compiled = compile_datahub(expanded.data, environ or {}, files=references is None)
    problems = list(expanded.problems)
    if compiled.error is not None:
        problems += problems_of(compiled.error, LegacyFilter, document, expanded.secrets, under=("filter",))
    try:
        spec = PipelineSpec.model_validate(compiled.data)
    except ValidationError as error:
        # What could not be expanded is said already; the text that still stands there is not worth a second word.
        said = [problem.path for problem in expanded.problems]
        found = problems_of(error, PipelineSpec, document, expanded.secrets)
        problems += [problem for problem in found if not any(path.startswith(problem.path) for path in said)]
    if problems:
        raise InvalidConfigError(sorted(problems, key=lambda problem: problem.line or 0))
    warnings = [document.problem(path, message, hint=hint) for path, message, hint in compiled.warnings]
    warnings += _managed(document, compiled.data)
    return compiled.finish(spec).with_origin(document.origin).with_secrets(expanded.secrets), warnings


def _managed(document: Document, data: dict[str, Any]) -> Iterator[Problem]:
    path = ("source", "config", "connection", "consumer_config")
    here: Any = data
    for key in path:
        here = here.get(key) if isinstance(here, dict) else None
    for name in sorted(MANAGED_PROPERTIES & (here or {}).keys()):
        yield document.problem((*path, name), "is set by Penstock itself; the value given is not used")


def _refuse_taken(spec: PipelineSpec, document: Document, loaded: Loaded) -> None:
    for other in loaded.specs:
        theirs = loaded.documents[other.name]
        if other.name == spec.name:
            line, _ = theirs.place(("name",))
            message = f"the name {spec.name!r} is taken by {theirs.file}:{line}"
            raise InvalidConfigError(
                [document.problem(("name",), message, received=spec.name, hint="names are unique")]
            )
        if other.group == spec.group and not (other.source.config.stateless or spec.source.config.stateless):
            line, _ = theirs.place(("source", "config", "group"))
            message = f"the group {spec.group!r} is taken by pipeline {other.name!r} in {theirs.file}:{line}"
            path = ("source", "config", "group") if spec.source.config.group else ("name",)
            raise InvalidConfigError([document.problem(path, message, received=spec.group, hint="groups are unique")])
