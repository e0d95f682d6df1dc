"""Where each owned partition stands: what is read, what is pending below that, what waits, and what may be committed.

L4: a partition's state is one object. Positions are changed by the pipeline's own thread only; lane threads, which plan
units, mark a partition as taken by a unit under the table's lock and change nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.core.clock import SYSTEM, Clock
from penstock.core.commit_metadata import OpenRetry, encode
from penstock.core.dead_letter import Stage
from penstock.core.status import PartitionStatus
from penstock.core.threads import THREADS, Threads
from penstock.kafka.group_consumer import Commit
from penstock.pipeline.messages import Assignment, Partition, PartitionOutcome, Retry
from penstock.store import MirrorRow

PENDING_AT_MOST = 10_000
"""L7: offsets below a partition's next offset that may be unfinished."""
_ISOLATED_AT_MOST = 2_000
"""Events of one isolated unit at most."""
_UNNAMED_AT_MOST = 1_024
"""Where no in-flight log names the suspects, isolated units grow from one event, doubling, up to this size."""


@dataclass(slots=True, frozen=True)
class PendingRetry:
    """An event that waits for its next attempt, on both clocks: the monotonic one decides, the wall clock goes into the
    commit."""

    offset: int
    attempts: int
    first_failed_at: int
    due: float
    due_at: int

    @classmethod
    def returned(cls, retry: Retry, clock: Clock = SYSTEM) -> PendingRetry:
        """As a unit's outcome says."""
        due, due_at = clock.monotonic() + retry.wait, clock.now_ms() + int(retry.wait * 1000)
        return cls(retry.offset, retry.attempts, retry.first_failed_at, due, due_at)

    @classmethod
    def remembered(cls, retry: OpenRetry, longest: float, clock: Clock = SYSTEM) -> PendingRetry:
        """From a commit's metadata. A wall clock that was set meanwhile never prolongs the wait beyond the policy."""
        wait = min(max(0.0, (retry.due_at - clock.now_ms()) / 1000), longest)
        return cls(retry.offset, retry.attempts, retry.first_failed_at, clock.monotonic() + wait, retry.due_at)

    def retry(self, clock: Clock = SYSTEM) -> Retry:
        return Retry(self.offset, self.attempts, self.first_failed_at, max(0.0, self.due - clock.monotonic()))

    def open_retry(self) -> OpenRetry:
        return OpenRetry(self.offset, self.attempts, self.first_failed_at, self.due_at)


@dataclass(slots=True)
class Isolation:
    """A worker died over this partition, or hangs: its next units run alone, one event at a time."""

    suspects: tuple[range, ...] = ()
    """Offsets that were being worked on at a death; one that kills again, alone, is the poison event."""
    until: int | None = None
    """Isolation lasts as long as offsets below this are unfinished; None: for one unit."""
    size: int | None = None
    """At most this many events in a unit, where no in-flight log names the suspects; halved with each death."""

    def next_suspects(self, position: int) -> range | None:
        """The first suspects at or behind a position; None: there are none, or no log has named them."""
        ahead = [each for each in self.suspects if each.stop > position]
        return min(ahead, key=lambda each: (each.start, -each.stop), default=None)

    def names(self, offset: int) -> bool:
        return any(offset in suspects for suspects in self.suspects)

    def add(self, suspects: Iterable[range]) -> None:
        self.suspects = (*self.suspects, *suspects)
        self.until = max((each.stop for each in self.suspects), default=None)


@dataclass(slots=True, frozen=True)
class Poison:
    """The event that killed its worker twice, until it is a dead letter."""

    offset: int
    stage: Stage
    reason: str
    exact: bool = True
    """False: no log has named it; it is the first event at or behind the offset."""


@dataclass(slots=True)
class PartitionState:
    """One partition that this instance owns."""

    topic: str
    partition: int
    epoch: int
    topic_id: str
    next_offset: int
    pending: tuple[int, ...] = ()
    retries: tuple[PendingRetry, ...] = ()
    log_start: int = 0
    committed: int | None = None
    """The offset last committed; None: nothing is, and nothing will be (stateless)."""
    committed_progress: tuple[object, ...] | None = None
    """What the last commit said; None: nothing is committed yet."""
    unit: int | None = None
    """The unit that works on it now."""
    at_end: bool = False
    relocate: bool = False
    """True: the position has to be found again, once no unit works on it and what it returned is committed."""
    revoked: bool = False
    """True: the group takes it away; no further unit, but one that collects acknowledgements."""
    deferred: int = 0
    """Pending events whose acknowledgement a worker waits for, as its last outcome said."""
    collect_until: float = 0.0
    """Monotonic time until which a partition that is revoked is held for acknowledgements."""
    waits_until: float = 0.0
    """Monotonic time before which no unit is planned: order forbids to pass an event that waits for its retry."""
    blocked_by: str | None = None
    """The outage that one of its events waits for; the events before it are done, and other partitions go on."""
    isolation: Isolation | None = None
    poison: Poison | None = None
    clock: Clock = field(default=SYSTEM, repr=False, compare=False)

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def position(self) -> int:
        """The lowest unfinished offset: what may be committed."""
        return min(self.pending, default=self.next_offset)

    @property
    def progress(self) -> tuple[object, ...]:
        """What a commit says; another value needs another commit."""
        return self.next_offset, self.pending, tuple((each.offset, each.attempts) for each in self.retries)

    @property
    def is_dirty(self) -> bool:
        """Whether it has moved since the last commit."""
        return self.committed_progress != self.progress

    def is_ready(self, now: float) -> bool:
        """Whether a unit may be planned: only after the last commit of the partition succeeded (DESIGN 3.2)."""
        free = self.unit is None and not (self.is_dirty or self.revoked or self.relocate)
        return free and self.poison is None and self.waits_until <= now

    @property
    def collects(self) -> bool:
        """Whether it is revoked and still held for acknowledgements."""
        return self.deferred > 0 and self.clock.monotonic() < self.collect_until

    def assignment(self) -> Assignment:
        retries = tuple(each.retry(self.clock) for each in self.retries)
        place = (self.topic, self.partition, self.epoch, self.next_offset, self.pending)
        return Assignment(*place, retries, self.topic_id, self.log_start)

    # -- positions -------------------------------------------------------------------------

    def advance(self, outcome: PartitionOutcome) -> None:
        """L1: take the position that a live worker returned."""
        self.next_offset, self.pending, self.at_end = outcome.next_offset, outcome.pending, outcome.at_end
        self.retries = tuple(PendingRetry.returned(retry, self.clock) for retry in outcome.retries)
        self.waits_until = self.clock.monotonic() + outcome.blocked_for if outcome.blocked_for else 0.0
        self.blocked_by, self.deferred = outcome.blocked_by, outcome.deferred
        self.relocate = self.relocate or outcome.out_of_range or outcome.gone
        if outcome.hung_at is not None:
            self.poison = Poison(outcome.hung_at, "timeout", "a step before the action did not return")
        if outcome.suspect_until is not None:
            self.isolation = self.isolation or Isolation()
            self.isolation.until = max(outcome.suspect_until, self.isolation.until or 0)
        elif self.isolation is not None:
            self._relax(self.isolation)

    def _relax(self, isolation: Isolation) -> None:
        """An isolated unit came back: isolation ends once the suspects are finished."""
        if isolation.until is not None and self.position < isolation.until and not self.at_end:
            return
        if isolation.size is not None and not isolation.suspects:
            isolation.size *= 2
            if isolation.size <= _UNNAMED_AT_MOST:
                return
        self.isolation = None

    def start_over(self) -> None:
        """An external source delivers what was open again, under other numbers."""
        self.pending, self.retries, self.waits_until, self.unit, self.at_end = (), (), 0.0, None, False

    def is_open(self, offset: int) -> bool:
        return offset >= self.next_offset or offset in self.pending

    # -- deaths ----------------------------------------------------------------------------

    def isolated_limits(self) -> tuple[int, int | None]:
        """Events that an isolated unit may take, and the offset at which it stops.

        What lies before the next suspect is finished and committed first, so that a further death repeats little; then
        the suspect is run, by itself where the log named it alone.
        """
        isolation = self.isolation
        if isolation is None:
            return _ISOLATED_AT_MOST, None
        size = isolation.size or _ISOLATED_AT_MOST
        suspects = isolation.next_suspects(self.position)
        if suspects is None:
            return size, None
        if self.next_offset < suspects.start:
            # Only while there is something to read before it: pending events may have to wait.
            return size, suspects.start
        return (size, None) if self.pending else (min(size, len(suspects)), None)

    def suspect(self, suspects: Sequence[range] | None, *, isolated: bool, stage: Stage, reason: str) -> None:
        """A worker died: while it worked on these offsets, or (None) there is no log that could tell.

        Nothing moves (L1). `isolated`: the unit was run alone because of an earlier death.
        """
        if suspects is None:
            self._suspect_unnamed(stage, reason, isolated=isolated)
            return
        open_ = [each for each in suspects if any(map(self.is_open, (each.start, each.stop - 1)))]
        only = open_[0].start if len(open_) == 1 and len(open_[0]) == 1 else None
        if isolated and only is not None and self.isolation is not None and self.isolation.names(only):
            self.poison = Poison(only, stage, reason)
            return
        self.isolation = self.isolation or Isolation()
        self.isolation.add(open_)

    def _suspect_unnamed(self, stage: Stage, reason: str, *, isolated: bool) -> None:
        isolation = self.isolation
        if isolation is None or not isolated or isolation.size is None:
            self.isolation = Isolation(size=1)
        elif isolation.size == 1:
            self.poison = Poison(self.position, stage, reason, exact=False)
        else:
            isolation.until = self.position + isolation.size
            isolation.size //= 2

    def finish_poison(self, offset: int) -> bool:
        """The poison event is a durable dead letter: it counts as finished.

        False: events in front of it may be unfinished, and too many offsets to name. The next isolated unit then takes
        one event, so that a further death is known to be over the first record behind the position.
        """
        self.poison = None
        single = self.isolation is not None and self.isolation.size == 1
        if offset in self.pending:
            self.pending = tuple(each for each in self.pending if each != offset)
        elif offset >= self.next_offset:
            between = range(self.next_offset, offset)
            if single and not self.pending:
                between = range(0)  # the unit's first record was the poison event: nothing lies in between
            if len(self.pending) + len(between) > PENDING_AT_MOST:
                self.reach_poison_first(offset)
                return False
            self.pending, self.next_offset = (*self.pending, *between), offset + 1
        self.retries = tuple(each for each in self.retries if self.is_open(each.offset))
        if self.isolation is not None:
            self._relax(self.isolation)
        return True

    def reach_poison_first(self, offset: int) -> None:
        """Events before the poison event are unfinished: they are run alone, one by one, and then it again."""
        self.poison = None
        self.isolation = Isolation(suspects=(range(offset, offset + 1),), until=offset + 1, size=1)

    # -- commits ---------------------------------------------------------------------------

    def commit(self) -> Commit:
        """I1: everything below the committed offset is finished; finished ranges above it are remembered beside it."""
        retries = [each.open_retry() for each in self.retries]
        return Commit(self.position, encode(self.topic_id, self.position, self.next_offset, self.pending, retries))

    def committed_as(self, offset: int | None, progress: tuple[object, ...]) -> None:
        """The commit of this progress succeeded; None: nothing had to be committed."""
        self.committed_progress = progress
        if offset is not None:
            self.committed = offset


class PartitionTable:
    """The partitions that this instance owns of one pipeline. `lock` guards all of it."""

    def __init__(self, *, threads: Threads = THREADS) -> None:
        self.lock = threads.lock()
        self.ends: dict[Partition, int] = {}
        """End offsets, as last seen."""
        self.total = 0
        """Partitions of all subscribed topics, whichever instance owns them, as far as known."""
        self._states: dict[Partition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._states

    def owned(self) -> list[Partition]:
        return sorted(self._states)

    def get(self, partition: Partition) -> PartitionState | None:
        return self._states.get(partition)

    def current(self, partition: Partition, epoch: int, topic_id: str) -> PartitionState | None:
        """L4: the state that something with this epoch and topic id is about; None: it is about a former one."""
        state = self._states.get(partition)
        return state if state is not None and (state.epoch, state.topic_id) == (epoch, topic_id) else None

    def add(self, state: PartitionState) -> None:
        with self.lock:
            self._states[state.key] = state

    def drop(self, partitions: Iterable[Partition]) -> list[PartitionState]:
        with self.lock:
            gone = [state for tp in partitions if (state := self._states.pop(tp, None)) is not None]
            for state in gone:
                self.ends.pop(state.key, None)
        return gone

    def dirty(self) -> list[PartitionState]:
        with self.lock:
            return [state for state in self._states.values() if state.is_dirty]

    def lag(self) -> int:
        """Records behind, as far as known."""
        with self.lock:
            return sum(max(0, self.ends.get(tp, 0) - state.position) for tp, state in self._states.items())

    def blocked_by(self) -> str | None:
        """The outage that some event waits for, if any."""
        with self.lock:
            return next((state.blocked_by for state in self._states.values() if state.blocked_by), None)

    def all_at_end(self) -> bool:
        """Whether everything that was there is read and finished, and nothing is in flight."""
        with self.lock:
            return all(
                state.at_end and not (state.pending or state.is_dirty or state.isolation) and state.unit is None
                for state in self._states.values()
            )

    def statuses(self, instance: str, *, commits: bool) -> list[PartitionStatus]:
        with self.lock:
            return [
                PartitionStatus(
                    topic=state.topic,
                    partition=state.partition,
                    committed=state.committed if commits else state.position,
                    end=(end := self.ends.get(state.key)),
                    lag=max(0, end - state.position) if end is not None else None,
                    owner=instance,
                )
                for state in self._states.values()
            ]

    def mirror_rows(self, group: str) -> list[MirrorRow]:
        """The last commits, for the store."""
        with self.lock:
            clean = [(s, s.commit()) for s in self._states.values() if s.committed is not None and not s.is_dirty]
        return [
            MirrorRow(
                group=group,
                topic=state.topic,
                topic_id=state.topic_id,
                partition=state.partition,
                offset=commit.offset,
                metadata=commit.metadata,
            )
            for state, commit in clean
            if commit.offset == state.committed
        ]
