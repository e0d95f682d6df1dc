"""What a replay's lanes work on: parts of partitions, each in order and to its end, and where their outcomes go."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.event import Record
from penstock.pipeline.messages import Assignment, FailedEvent, Partition, PartitionOutcome, Retry

_RECORDS = 5_000
"""Given records that travel with one window."""
_MANY = 1_024
"""Where no log names the suspect, isolated units grow from one event, twice as many each time, up to so many."""


class ReplayHalted(PenstockError, Terminal):
    """A replay ended before its end, by itself; what it had done counts."""

    code = "replay-halted"


class PipelineUnusable(ConfigError):
    """Executors cannot build the pipeline."""

    code = "replay-pipeline"


class GarbledPartition(PenstockError):
    """An outcome says something about a partition that cannot be."""

    code = "garbled-partition"


@dataclass(slots=True)
class ReplaySegment:
    """A part of one partition: a range of the log, or records that are given. L1: only outcomes move it."""

    topic: str
    partition: int
    topic_id: str
    next_offset: int
    end: int
    """The part is over at this offset."""
    records: dict[int, Record] | None = None
    """Instead of the log, by offset, ascending."""
    pending: tuple[int, ...] = ()
    """Offsets below `next_offset` that are not finished."""
    retries: tuple[tuple[Retry, float], ...] = ()
    """Events that wait for their next attempt, with the monotonic time of it."""
    waits_until: float = 0.0
    """Monotonic time before which nothing can be done: order forbids to pass an event that waits for its retry."""
    isolated: bool = False
    """Its next units run alone, one event at a time: a worker died over it, or hung."""
    isolated_until: int | None = None
    """As long as events below this are unfinished; None: for one unit."""
    suspects: frozenset[int] = frozenset()
    """Events that were being worked on when a worker died: one that kills again, alone, is the killer."""
    few: int | None = None
    """Events that an isolated unit may take, where no log names the suspect."""
    killer: int | None = None
    """The event that killed its worker twice, until it has failed. What lies before it is done first."""
    clock: Clock = SYSTEM

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def position(self) -> int:
        """The lowest unfinished offset."""
        return min(self.pending, default=self.next_offset)

    @property
    def finished(self) -> bool:
        return self.killer is None and (not self.open if self.records is not None else self.position >= self.end)

    @property
    def open(self) -> set[int]:
        """Offsets of given records that are not finished."""
        pending = set(self.pending)
        return {offset for offset in self.records or () if offset >= self.next_offset or offset in pending}

    @property
    def stop_at(self) -> int:
        """Where the next unit ends."""
        return self.end if self.killer is None else min(self.end, self.killer)

    @property
    def at_killer(self) -> bool:
        """Everything before the killer is finished, or it waits below the next offset."""
        if self.killer is None:
            return False
        if self.records is not None:
            return self.killer in self.pending or all(offset >= self.killer for offset in self.open)
        return self.killer in self.pending or self.position >= self.killer

    def ready(self, now: float) -> bool:
        return self.waits_until <= now

    def assignment(self) -> Assignment:
        now = self.clock.monotonic()
        retries = tuple(
            Retry(retry.offset, retry.attempts, retry.first_failed_at, max(0.0, due - now))
            for retry, due in self.retries
        )
        return Assignment(self.topic, self.partition, 0, self.next_offset, self.pending, retries, self.topic_id)

    def given(self) -> list[Record]:
        """The records that a window gets: of many, the first ones."""
        unfinished, stop_at = self.open, self.stop_at
        left = (record for offset, record in (self.records or {}).items() if offset in unfinished and offset < stop_at)
        return list(itertools.islice(left, _RECORDS))

    def record_from(self, offset: int) -> Record | None:
        """The first given record at or behind this offset."""
        return next((record for at, record in (self.records or {}).items() if at >= offset), None)

    # -- outcomes --------------------------------------------------------------------------

    def advance(self, outcome: PartitionOutcome) -> None:
        now = self.clock.monotonic()
        self.next_offset, self.pending = outcome.next_offset, outcome.pending
        self.retries = tuple((retry, now + retry.wait) for retry in outcome.retries)
        self.waits_until = now + outcome.blocked_for if outcome.blocked_for else 0.0
        if outcome.suspect_until is not None:
            self.isolated, self.isolated_until = True, outcome.suspect_until
        elif self.isolated:
            self._relax()

    def _relax(self) -> None:
        """An isolated unit came back: go on as before once the suspects are finished."""
        if self.isolated_until is not None and self.position < min(self.isolated_until, self.end):
            return
        if self.few is not None:
            self.few *= 2
            if self.few <= _MANY:
                return
        self.isolated, self.isolated_until, self.few, self.suspects = False, None, None, frozenset()

    def finish(self, offset: int) -> None:
        """An event that failed has had its turn, although its outcome leaves it unfinished. In a range of the log
        nothing unfinished may lie between the next offset and it."""
        if offset in self.pending:
            self.pending = tuple(left for left in self.pending if left != offset)
        elif offset >= self.next_offset:
            before = [left for left in self.records or () if self.next_offset <= left < offset]
            self.next_offset, self.pending = offset + 1, (*self.pending, *before)
        self.retries = tuple((retry, due) for retry, due in self.retries if self._is_open(retry.offset))

    def finish_killer(self, offset: int) -> None:
        """The killer, found at this offset, has failed: go on behind it."""
        self.killer, self.few = None, None
        self.finish(offset)
        self._relax()

    def _is_open(self, offset: int) -> bool:
        return offset >= self.next_offset or offset in self.pending

    # -- deaths ----------------------------------------------------------------------------

    def suspect(self, offsets: Collection[int], *, alone: bool, logged: bool) -> None:
        """A worker died over this part: over one of these events, or (not `logged`) over an unknown one. `alone`: the
        unit was an isolated one. L1: nothing is known to be done."""
        named = [offset for offset in offsets if self._is_open(offset)]
        was_isolated, self.isolated = self.isolated and alone, True
        if logged and was_isolated and len(named) == 1 and named[0] in self.suspects:
            self.killer = named[0]
        elif logged:
            self.suspects |= frozenset(named)
            self.isolated_until = max(self.suspects) + 1 if self.suspects else None
        elif was_isolated and self.few == 1:
            self.killer = self.position
        elif was_isolated and self.few is not None:
            self.isolated_until = self.position + self.few
            self.few //= 2
        else:
            self.few = 1


class ReplayWork(ABC):
    """The segments of one pipeline, shared by the replay's lanes, and where their outcomes go."""

    @abstractmethod
    def take(self) -> list[ReplaySegment] | None:
        """Segments for a lane that is free, one per partition; empty: none at the moment; None: there will be none."""

    @abstractmethod
    def settle(
        self, done: list[tuple[ReplaySegment, set[int]]], failures: list[tuple[ReplaySegment, FailedEvent]]
    ) -> None:
        """Make durable which given records are finished, and what failed; may raise `Unavailable`."""

    @abstractmethod
    def give_back(self, segments: Iterable[ReplaySegment]) -> None:
        """These are finished, or will not be."""

    @abstractmethod
    def failure_of(self, segment: ReplaySegment, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        """The failure of the first event from this offset on, whose worker died; None: the segment has none there."""
