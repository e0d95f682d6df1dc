"""Filters of dead letters as they stand in an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from penstock.console.frame import Visit, url
from penstock.core.errors import ConfigError
from penstock.service.operations.letter_models import LetterChoice, LetterQuery

PATH: Final = "/dead-letters"
FACETS: Final = (("status", "Status"), ("stage", "Stage"), ("pipeline", "Pipeline"), ("topic", "Topic"))
_WORDS: Final = ("pipeline", "topic", "partition", "stage", "status", "fingerprint", "since", "until", "text")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an address asks for: the words as they were written, and what they mean."""

    words: dict[str, str]
    query: LetterQuery

    def address(self, path: str = PATH, /, **changes: str | None) -> str:
        """The same with some words changed; None takes one out."""
        return url(path, **(self.words | changes))

    @property
    def choice(self) -> LetterChoice:
        """All of them; without a filter, all that are new."""
        return LetterChoice(filter=self.query if self.words else LetterQuery(status="new"))

    def said(self) -> str:
        """In words, for a person."""
        return ", ".join(f"{name} {value}" for name, value in self.words.items()) or "all new dead letters"


def chosen(visit: Visit) -> Chosen:
    """An error names the word that is none."""
    words = {name: value for name in _WORDS if (value := visit.asked(name)) is not None}
    try:
        query = LetterQuery.model_validate(words)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(f"{wrong['loc'][0]}: {wrong['msg']}", received=wrong["input"]) from None
    query.filter()
    return Chosen(words, query)
