"""Filters of dead letters as they stand in an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.console.frame import Visit, url
from penstock.core.errors import ConfigError
from penstock.service.dead_letters import which_letters
from penstock.store import DeadLetterFilter

PATH: Final = "/dead-letters"
FACETS: Final = (("status", "Status"), ("stage", "Stage"), ("pipeline", "Pipeline"), ("topic", "Topic"))
_WORDS: Final = ("pipeline", "topic", "stage", "status", "fingerprint", "since", "until", "text")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an address asks for: the words as they were written, and what they mean."""

    words: dict[str, str]
    which: DeadLetterFilter

    def address(self, path: str = PATH, /, **changes: str | None) -> str:
        """The same with some words changed; None takes one out."""
        return url(path, **(self.words | changes))

    def said(self) -> str:
        """In words, for a person."""
        return ", ".join(f"{name} {value}" for name, value in self.words.items()) or "all open dead letters"


def chosen(visit: Visit) -> Chosen:
    """An error names the word that is none."""
    words = {name: value for name in _WORDS if (value := visit.asked(name)) is not None}
    partition = visit.asked("partition")
    if partition is not None and not partition.isdecimal():
        raise ConfigError("the partition is no number", received=partition)
    which = which_letters(**words, partition=None if partition is None else int(partition))
    return Chosen(words | ({"partition": partition} if partition else {}), which)
