"""What the repository of dead letters takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from penstock.core.clock import format_time
from penstock.core.dead_letter import DeadLetter, Stage
from penstock.core.errors import ConfigError
from penstock.core.event import Record

DeadLetterStatus = Literal["new", "replaying", "replayed", "parked", "discarded"]

OPEN: Final[tuple[DeadLetterStatus, ...]] = ("new", "replaying", "parked")
"""Statuses of letters that still wait for something to happen."""
CLOSED: Final[tuple[DeadLetterStatus, ...]] = ("replayed", "discarded")


class LetterRefused(ConfigError):
    """A letter is not there, or not in a status in which this can be done to it."""

    code = "dead-letter"


class DeadLetterCursor(NamedTuple):
    """Where a list goes on: behind the last row seen, or looked at."""

    last_failed_at: int
    id: int
    walks: bool = False
    """The index of texts has been of no use: it need not be asked again."""

    @property
    def place(self) -> tuple[int, int]:
        return self.last_failed_at, self.id


class LetterPlace(NamedTuple):
    """Where a letter's event stood; letters are replayed in this order."""

    pipeline: str
    topic_id: str
    partition: int
    offset: int


class ClaimedLetter(NamedTuple):
    """A letter as a replay needs it."""

    id: int
    place: LetterPlace
    record: Record


class LetterCount(NamedTuple):
    """How many letters there are of one partition."""

    pipeline: str
    topic: str
    partition: int
    letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which letters; what is None does not matter."""

    pipeline: str | None = None
    pipelines: tuple[str, ...] | None = None
    """Only letters of these."""
    topic: str | None = None
    partition: int | None = None
    stage: Stage | None = None
    status: DeadLetterStatus | None = None
    error: str | None = None
    """Text within the error's code or message, whatever its case."""
    fingerprint: str | None = None
    since: int | None = None
    """Failed last at or after this, epoch milliseconds."""
    until: int | None = None
    """Failed last before this, epoch milliseconds."""
    text: str | None = None
    """Text within the error, the key or the value, whatever its case; see `search` for how much of each."""


Which = DeadLetterFilter | Sequence[int]
"""Letters by what they have in common, or by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRow:
    """A letter as lists show it."""

    id: int
    pipeline: str
    topic: str
    partition: int
    offset: int
    stage: Stage
    error_code: str
    error: str
    attempts: int
    status: DeadLetterStatus
    first_failed_at: int
    last_failed_at: int

    @property
    def cursor(self) -> DeadLetterCursor:
        """Given as `before`, lists what comes after this row."""
        return DeadLetterCursor(self.last_failed_at, self.id)

    def as_dict(self) -> dict[str, Any]:
        """The shape that `penstock dead-letters list --json` promises."""
        times = {
            "first_failed_at": format_time(self.first_failed_at),
            "last_failed_at": format_time(self.last_failed_at),
        }
        return {name: getattr(self, name) for name in self.__slots__} | times


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStep:
    """One thing that happened to a letter."""

    at: int
    kind: str
    """`failed`, `replayed`, `replay-failed`, `parked`, `released`, `discarded`, `imported`."""
    text: str
    by: str | None
    """The person or process that did it; None where the pipeline itself did."""
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeadLetter:
    """A letter with all that is known of it."""

    row: DeadLetterRow
    letter: DeadLetter
    replays: int
    history: list[DeadLetterStep] = field(default_factory=list)
    """Empty where it was not asked for."""

    @property
    def id(self) -> int:
        return self.row.id

    @property
    def place(self) -> LetterPlace:
        """Given as `after`, goes on behind this letter."""
        letter = self.letter
        return LetterPlace(letter.pipeline, letter.topic_id, letter.partition, letter.offset)


class LetterPage(NamedTuple):
    """A part of a list."""

    rows: list[DeadLetterRow]
    next: DeadLetterCursor | None
    """Where the list goes on; None: that was all."""
