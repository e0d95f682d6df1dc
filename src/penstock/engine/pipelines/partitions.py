"""Where each owned partition stands: what is read, what is open below that, what waits, and what may be committed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.core.clock import SYSTEM, Clock
from penstock.core.commit_metadata import OpenRetry, encode
from penstock.kafka.group_consumer import Commit
from penstock.pipeline.messages import Assignment, Partition, PartitionOutcome, Retry


@dataclass(slots=True, frozen=True)
class PendingRetry:
    """An event that waits for its next attempt, on both clocks: the monotonic one for us, the other for the commit."""

    offset: int
    attempts: int
    first_failed_at: int
    due: float
    due_at: int

    @classmethod
    def said(cls, retry: Retry, around: Clock = SYSTEM) -> PendingRetry:
        due, due_at = around.monotonic() + retry.wait, around.now_ms() + int(retry.wait * 1000)
        return cls(retry.offset, retry.attempts, retry.first_failed_at, due, due_at)

    @classmethod
    def remembered(cls, retry: OpenRetry, longest: float, around: Clock = SYSTEM) -> PendingRetry:
        """From a commit; a clock that was set meanwhile makes nobody wait longer than the policy would."""
        wait = min(max(0.0, (retry.due_at - around.now_ms()) / 1000), longest)
        due = around.monotonic() + wait
        return cls(retry.offset, retry.attempts, retry.first_failed_at, due, retry.due_at)

    def retry(self) -> Retry:
        return Retry(self.offset, self.attempts, self.first_failed_at, max(0.0, self.due - time.monotonic()))

    def open_retry(self) -> OpenRetry:
        return OpenRetry(self.offset, self.attempts, self.first_failed_at, self.due_at)


@dataclass(slots=True)
class PartitionState:
    """One partition this instance owns."""

    topic: str
    partition: int
    epoch: int
    topic_id: str
    next_offset: int
    pending: tuple[int, ...] = ()
    waiting: tuple[PendingRetry, ...] = ()
    committed: int | None = None
    """The offset last committed; None: nothing is, and nothing will be (stateless)."""
    unit: int | None = None
    """The unit that works on it now."""
    at_end: bool = False
    doubtful: bool = False
    """True: the position is to be found anew once the unit that works on it has ended."""
    fenced: bool = False
    """True: being revoked; no further unit."""
    waits_until: float = 0.0
    """Monotonic time before which nothing can be done: order forbids to pass an event that waits for its retry."""
    careful: bool = False
    """True: a worker died over it, or hangs: its next units run alone, one event at a time."""
    careful_until: int | None = None
    """As long as events below this are open; None: for one unit."""
    suspected: frozenset[int] = frozenset()
    """Events that were being worked on when a worker died: one that kills again, alone, is the killer."""
    few: int | None = None
    """At most so many events in a careful unit, where no in-flight log names the suspect: halved with each death."""
    killer: int | None = None
    """The event that killed its worker twice, until it is a dead letter."""
    blocked_by: str | None = None
    """The outage that the next event waits for."""

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def position(self) -> int:
        """The lowest unfinished offset: what may be committed."""
        return min(self.pending, default=self.next_offset)

    @property
    def doubted(self) -> int:
        """Offsets from the position up to the last suspect; 0: there is none."""
        return max(0, self.careful_until - self.position) if self.careful_until is not None else 0

    @property
    def progress(self) -> tuple[object, ...]:
        """What a commit tells; another value wants another commit."""
        return self.next_offset, self.pending, tuple((w.offset, w.attempts) for w in self.waiting)

    def ready(self, now: float) -> bool:
        """Whether a unit may be planned."""
        return self.unit is None and not self.fenced and self.killer is None and self.waits_until <= now

    def assignment(self) -> Assignment:
        retries = tuple(waiting.retry() for waiting in self.waiting)
        return Assignment(
            self.topic, self.partition, self.epoch, self.next_offset, self.pending, retries, self.topic_id
        )

    def advance(self, outcome: PartitionOutcome) -> None:
        self.next_offset, self.pending, self.at_end = outcome.next_offset, outcome.pending, outcome.at_end
        self.waiting = tuple(PendingRetry.said(retry) for retry in outcome.retries)
        self.waits_until = time.monotonic() + outcome.blocked_for if outcome.blocked_for else 0.0
        self.blocked_by, self.killer = outcome.blocked_by, outcome.hung_at
        if outcome.suspect_until is not None:
            self.careful, self.careful_until = True, outcome.suspect_until
        elif self.careful:
            self._relax()

    def _relax(self) -> None:
        """A careful unit came back: go on as before once the suspects are behind us."""
        if self.careful_until is not None and self.position < self.careful_until and not self.at_end:
            return
        if self.few is not None:
            self.few *= 2
            if self.few <= _MANY:
                return
        self.careful, self.careful_until, self.few, self.suspected = False, None, None, frozenset()

    def begin_anew(self) -> None:
        """Whatever was open comes again under another number."""
        self.pending, self.waiting, self.waits_until, self.unit, self.at_end = (), (), 0.0, None, False

    def finish(self, offset: int) -> None:
        """One event that a dead worker left open is finished."""
        next_offset = max(self.next_offset, offset + 1)
        open_ = {*self.pending, *range(self.next_offset, next_offset)} - {offset}
        self.next_offset, self.pending = next_offset, tuple(sorted(open_))
        self.waiting = tuple(w for w in self.waiting if self.is_open(w.offset))

    def is_open(self, offset: int) -> bool:
        return offset >= self.next_offset or offset in self.pending

    def suspect(self, offsets: Iterable[int], *, noted: bool) -> None:
        """A worker died over this partition: over one of these events, or (not `noted`) nobody knows over which."""
        named = [offset for offset in offsets if self.is_open(offset)]
        was_careful, self.careful = self.careful, True
        if noted and was_careful and len(named) == 1 and named[0] in self.suspected:
            self.killer = named[0]
        elif noted:
            self.suspected |= frozenset(named)
            self.careful_until = max(self.suspected) + 1 if self.suspected else None
        elif was_careful and self.few == 1:
            self.killer = self.position
        elif was_careful and self.few is not None:
            self.careful_until = self.position + self.few
            self.few //= 2
        else:
            self.few = 1

    def commit(self) -> Commit:
        """I1: everything below the committed offset is finished; finished ranges above it are remembered beside it."""
        retries = [waiting.open_retry() for waiting in self.waiting]
        return Commit(self.position, encode(self.topic_id, self.position, self.next_offset, self.pending, retries))


_MANY = 1_024
"""Without an in-flight log that names the suspect, careful units grow from one event, twice as many each time, up to
so many."""
