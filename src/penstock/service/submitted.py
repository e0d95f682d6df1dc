"""Specs that come through the API: what callers may not name is refused before anything of it is loaded or made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.config.documents import Document, read_text
from penstock.config.loading import Loaded, load_document
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.config.secret_values import NOT_KEPT
from penstock.config.spec import PipelineSpec
from penstock.core.secrets import secrets_at_key
from penstock.service.refusals import Limits, is_secret_reference, refusals
from penstock.service.validation import checked

NAME: Final = "spec"
"""Stands where a file's name would."""


@dataclass(slots=True)
class Submitted:
    """What became of a text."""

    spec: PipelineSpec | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    """The document, by the spec's name."""


def check_submitted(text: str, limits: Limits) -> Submitted:
    """Everything that is wrong with it; nothing outside is touched but names that are resolved."""
    reading = read_text(NAME, text)
    problems = reading.problems or list(_shape(reading.documents)) or list(refusals(reading.documents[0], limits))
    if problems:
        return Submitted(problems=problems)
    loaded = _loaded(reading.documents[0], limits)
    if loaded.problems or not loaded.specs:
        return Submitted(problems=loaded.problems or loaded.warnings)
    return Submitted(loaded.specs[0].with_origin(None), [], loaded.warnings, loaded.documents)


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


def _loaded(document: Document, limits: Limits) -> Loaded:
    named = _Named(document, limits.named)
    data = named.put(document.data)
    if named.problems:
        return Loaded(problems=named.problems)
    # No text: DataHub's files would be parsed once more from it.
    prepared = Document(document.file, data, document.tree, document.first_line)
    loaded = load_document(prepared, limits.variables)
    loaded.specs = [spec.with_secrets(named.used) for spec in loaded.specs]
    return checked(loaded)


class _Named:
    """Puts named secrets in the place of references to them."""

    def __init__(self, document: Document, named: Mapping[str, str] | None) -> None:
        self._document, self._named = document, named
        self.used: set[str] = set()
        self.problems: list[Problem] = []

    def put(self, value: Any, path: KeyPath = ()) -> Any:
        """A copy of the data."""
        if is_secret_reference(value):
            return self._secret(str(next(iter(value.values()))), path)
        if isinstance(value, Mapping):
            return {key: self.put(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.put(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def _secret(self, name: str, path: KeyPath) -> str:
        if self._named is None:
            return "reference"
        found = self._named.get(name)
        if found is None:
            self.problems.append(self._document.problem(path, f"there is no secret named {name!r}", hint=NOT_KEPT))
            return ""
        self.used |= secrets_at_key(found)
        return found
