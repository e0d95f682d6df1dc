"""References of named secrets in documents: `{$ref: NAME}`. Where they stand, and what is put in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.config.problems import Path
from penstock.config.secret_values import REFERENCE
from penstock.core.secrets import secrets_at_key


def is_secret_reference(value: object) -> bool:
    """`{$ref: NAME}`: a named secret of the store."""
    return isinstance(value, Mapping) and set(value) == {REFERENCE}


def find_references(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every reference with its place."""
    if is_secret_reference(value):
        yield path, str(value[REFERENCE])
        return
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from find_references(item, (*path, key))


class References:
    """Puts secrets in the place of references. Their values are texts: nothing of them is expanded or parsed here."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._named = named
        self.used: set[str] = set()
        """Values that were put in place, with the secrets inside them, for scrubbing."""

    def put(self, value: Any) -> Any:
        """A copy of the data. A reference without a secret stays, which is no value of any field."""
        if is_secret_reference(value):
            found = self._named.get(str(value[REFERENCE]))
            if found is None:
                return value
            self.used |= secrets_at_key(found)
            return found
        if isinstance(value, Mapping):
            return {key: self.put(item) for key, item in value.items()}
        return [self.put(item) for item in value] if isinstance(value, list) else value
