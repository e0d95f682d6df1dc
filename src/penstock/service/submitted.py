"""Specs that come through the API: what callers may not name is refused before anything of it is loaded or made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.documents import Document, read_text
from penstock.config.loading import Loaded, load_document
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.config.references import References, find_references
from penstock.config.secret_values import REFERENCE
from penstock.config.spec import PipelineSpec
from penstock.pipeline.policy import written_places
from penstock.service.refusals import Limits, as_problems, without_secrets, written_problems
from penstock.service.validation import checked

NAME: Final = "spec"
"""Stands where a file's name would."""


@dataclass(slots=True)
class Submitted:
    """What became of a text."""

    spec: PipelineSpec | None = None
    """With its secrets in their places."""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    """The document, by the spec's name."""
    referred: dict[KeyPath, str] = field(default_factory=dict)
    """Names of the secrets that it refers to, by their places."""

    def shown(self) -> dict[str, Any] | None:
        """The spec for people, with references where they were written."""
        if self.spec is None:
            return None
        data = self.spec.shown()
        for path, name in self.referred.items():
            _put_back(data, path, name)
        return data


def check_submitted(text: str, limits: Limits) -> Submitted:
    """Everything that is wrong with it; nothing outside is touched but names that are resolved.

    The document is parsed, references are put in place, and the validated model is held to the policy. Only then are
    plug-ins asked what they think of it."""
    reading = read_text(NAME, text)
    problems = reading.problems or list(_shape(reading.documents))
    if problems:
        return Submitted(problems=problems)
    document = reading.documents[0]
    places = written_places(PipelineSpec, document.data)
    problems = [*_other_kinds(document, limits), *written_problems(document, places, limits)]
    if problems:
        problems += as_problems(document, limits.policy().refusals(PipelineSpec, document.data))
        return Submitted(problems=_sorted(problems))
    return _resolved(document, limits)


def require_valid(found: Submitted) -> PipelineSpec:
    """The spec, or `InvalidConfigError` with all that is wrong."""
    if found.spec is None:
        raise InvalidConfigError(found.problems)
    return found.spec


def _shape(documents: Sequence[Document]) -> Iterator[Problem]:
    first, *more = documents
    if more:
        yield more[0].problem((), "only one document is wanted here")
    elif not isinstance(first.data, dict):
        yield first.problem((), "a map with name, source and action is wanted at the top")
    elif "/" in str(first.data.get("name")):
        # A name is part of an address, where a slash means something else.
        yield first.problem(("name",), "a name in the store has no '/' in it", received=first.data["name"])


def _other_kinds(document: Document, limits: Limits) -> Iterator[Problem]:
    for key in ("dialect", "kind"):
        if document.data.get(key, "pipeline") != "pipeline" and "import" not in limits.allowed:
            hint = "only admins may, and only where PENSTOCK_API_ALLOW lists import"
            yield document.problem((key,), f"{key} {document.data[key]!r} is not taken from API callers", hint=hint)


def _resolved(document: Document, limits: Limits) -> Submitted:
    referred = dict(find_references(document.data))
    references = References(limits.secrets(referred))
    # No text: DataHub's files would be parsed once more from it.
    prepared = Document(document.file, document.data, document.tree, document.first_line)
    loaded = load_document(prepared, limits.variables, references)
    if loaded.problems or not loaded.specs:
        problems = loaded.problems or loaded.warnings
        problems += as_problems(document, limits.policy().refusals(PipelineSpec, document.data))
        return Submitted(problems=without_secrets(_sorted(problems), references.used))
    spec = loaded.specs[0]
    refusals = limits.policy(referred).refusals(PipelineSpec, spec)
    refused = [loaded.problem(spec, path, why, received=value, hint=hint) for path, why, value, hint in refusals]
    loaded = Loaded(problems=refused) if refused else checked(loaded)
    if loaded.problems or not loaded.specs:
        return Submitted(problems=without_secrets(loaded.problems or loaded.warnings, references.used))
    spec = loaded.specs[0].with_origin(None).with_secrets(references.used)
    warnings = without_secrets(loaded.warnings, references.used)
    return Submitted(spec, [], warnings, loaded.documents, referred)


def _sorted(problems: list[Problem]) -> list[Problem]:
    """In the order of the document, each said once."""
    once = {(problem.path, problem.message): problem for problem in problems}
    return sorted(once.values(), key=lambda problem: (problem.line or 0, problem.column or 0))


def _put_back(data: Any, path: KeyPath, name: str) -> None:
    *above, last = path
    for key in above:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return  # the model has given it another form; there it is scrubbed
    if isinstance(data, dict) or (isinstance(data, list) and isinstance(last, int) and last < len(data)):
        data[last] = {REFERENCE: name}  # type: ignore[index]  # a list has a number
