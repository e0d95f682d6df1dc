"""Ways to run an action over prepared items: here what they share, and the plainest, one after the other."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Stage
from penstock.core.deadline import Deadline
from penstock.core.errors import Unavailable
from penstock.core.event import Event
from penstock.pipeline.chain import Chain, FailedItem, Item
from penstock.pipeline.in_flight_log import Pages
from penstock.pipeline.messages import Assignment, FailedEvent, Partition, PartitionOutcome
from penstock.pipeline.retry import Coordinates, RetryPolicy, RetryState
from penstock.pipeline.unit_result import ActResult, TimedOut, UnitResult

Verdict = Literal["done", "failed", "deferred", "later", "stop"]
"""What becomes of an event: it is done; it failed for good; its acknowledgement is put off; it is tried again later;
the unit ends before it."""


_QUICK = 0.001
"""Seconds below which acts are noted together at the unit's end: one by one, that would show in their cost."""
_EARLY_AT_MOST = 1_000
"""Acknowledgements remembered of events that are not deferred: those of actions that acknowledge every event, too."""


class ActionExecutor(ABC):
    """Runs the action over items that are fed in order. Retries wait here, from unit to unit."""

    def __init__(self, chain: Chain, spec: PipelineSpec) -> None:
        self.chain = chain
        self.action: Any = chain.action
        self.spec = spec
        self.tally: UnitResult
        self.deadline: Deadline
        self.pages: Pages | None = None
        self.exact = True
        self.timeout = spec.options.timeout
        self.strand: Callable[[Item], Hashable] = strand_of(spec.ordering)
        self.tries: dict[Coordinates, RetryState] = {}
        """Events that failed and wait for their next attempt."""
        self.deferred: dict[Coordinates, tuple[Event, float]] = {}
        """Events whose acknowledgement the action put off, and when their time is up."""
        self._acknowledging = threading.Lock()
        self._early: dict[Coordinates, bool] = {}
        """Acknowledged before they were deferred, in order."""
        self.tainted = False
        """True: a thread of this process hangs in the action, and always will."""
        self._quick = (0.0, 0)
        """Seconds and number of quick acts that are not noted yet."""
        self._retrying = RetryPolicy(spec.options.retry)
        self._whole = spec.options.retry.scope == "chain"

    def begin(self, tally: UnitResult, deadline: Deadline, pages: Pages | None = None, *, exact: bool = True) -> None:
        """A unit begins; with `exact`, everything below what it reads first is finished."""
        self.tally = tally
        self.deadline = deadline
        self.pages = pages
        self.exact = exact

    keeps_cursor = False
    """Whether the target has the position of each partition, in the transaction that has the rows."""
    cursor_gaps: dict[Partition, tuple[int, int]] = {}  # noqa: RUF012 - never changed here
    """Cursors that were below the log's start and were moved there in this unit: from, to."""

    def open_cursors(self, assignments: Sequence[Assignment], *, replays: bool) -> None:  # noqa: B027 - only targets with a cursor have them
        """Read the positions that the target has of these partitions, all at once."""

    def start_offset(self, a: Assignment, *, replays: bool) -> int | None:  # noqa: ARG002 - as above
        """Where to read from; None: where the assignment says."""
        return None

    def cursor(self, partition: Partition) -> int | None:  # noqa: ARG002 - as above
        """The position to report; None: where the reader is."""
        return None

    def reported(self, outcomes: Iterable[PartitionOutcome]) -> None:  # noqa: B027 - as above
        """The unit's outcome is complete."""

    @abstractmethod
    def feed(self, items: list[Item]) -> None:
        """Work on these items, or take them in as far as there is room."""

    def mark_consumed(self, ends: dict[Partition, int]) -> None:  # noqa: B027 - only a cursor cares
        """All that was read below these offsets was fed, or dropped by a filter."""

    @abstractmethod
    def wake(self) -> None:
        """Work on what has become due."""

    @property
    @abstractmethod
    def next_due(self) -> float | None:
        """Monotonic time at which `wake` has something to do."""

    @property
    @abstractmethod
    def waiting(self) -> dict[Partition, list[int]]:
        """Offsets per partition that wait for a retry, their own or that of an event before them."""

    @property
    def tail_only(self) -> bool:
        """Whether what is unfinished of a partition is always the tail of what was fed of it."""
        return self.spec.ordering == "partition"

    overlaps = False
    """Whether waiting for one event leaves the process free for others: more processes would not help then."""

    @property
    def all_done(self) -> bool:
        """Whether everything that was fed, in this unit, is done, as far as can be said in one number."""
        return False

    @property
    def busy(self) -> bool:
        """Whether other threads are at work on something."""
        return False

    def wait_idle(self) -> None:  # noqa: B027 - what acts in the unit's thread is always calm
        """Wait until nothing is being acted on."""

    @abstractmethod
    def finish(self) -> list[Item]:
        """Wait for what is being acted on; return what is not finished. Nothing begins after the deadline."""

    def overdue(self, now: float) -> bool:  # noqa: ARG002 - strands look after themselves
        """Whether the unit's own thread is in an action for too long."""
        return False

    def give_up(self) -> tuple[list[Item], list[Item]] | None:
        """Called from another thread when overdue: the events that hang, and those not finished, these among them;
        None: it has just come back."""
        return None

    def close(self) -> None:  # noqa: B027 - only strands have threads to end
        """Let go of threads."""

    # -- how long it takes -----------------------------------------------------------------

    def took(self, seconds: float, events: int) -> None:
        """So many events were acted on, one after the other."""
        if seconds >= _QUICK * events:
            self.chain.times.add("act", seconds, events)
        else:
            self._quick = (self._quick[0] + seconds, self._quick[1] + events)

    def note_quick(self) -> None:
        """The unit ends."""
        self.chain.times.add("act", *self._quick)
        self._quick = (0.0, 0)

    # -- what becomes of an event ----------------------------------------------------------

    def done(self, item: Event, result: Any) -> Verdict:
        """Take what `act` returned."""
        if result is None or result is True or result is False:
            with self.tally.lock:
                self.tally.acted += 1
            if self.tries:
                self.tries.pop(coordinates(item), None)
        return "done" if result is None or result is True else self.unusual(item, result)

    def unusual(self, item: Event, result: Any) -> Verdict:
        """False defers; anything but None and True is a failure."""
        if result is False:
            place = coordinates(item)
            with self._acknowledging:
                if self._early.pop(place, False):
                    return "done"
                self.deferred[place] = (item, time.monotonic() + self.spec.options.deferral_timeout)
            return "deferred"
        wrong = ActResult(
            f"act returned {type(result).__name__}",
            received=type(result).__name__,
            allowed="None or True (done), False (deferred)",
        )
        return self.fail(item, "act", wrong)

    def fail(self, item: Item, stage: Stage, error: BaseException) -> Verdict:
        """Take an exception: an outage stops the unit and spares the event, others are tried again as configured."""
        judged = self.judge(item, stage, error)
        if not isinstance(judged, FailedEvent):
            return judged
        return "failed" if self.tally.take(judged) else "stop"

    def judge(self, item: Item, stage: Stage, error: BaseException) -> FailedEvent | Literal["later", "stop"]:
        """What an exception means for its event: a failure, which is not recorded yet, or another try."""
        if isinstance(error, Unavailable):
            self.tally.outage(error)
            return "stop"
        place = coordinates(item)
        if stage in ("act", "timeout"):
            with self.tally.lock:
                self.tally.act_errors += 1
        before = self.tries.pop(place, None)
        again = self._retrying.after(error, before)
        if again is not None:
            self.tries[place] = again
            with self.tally.lock:
                self.tally.retried += 1
            return "later"
        if isinstance(error, MemoryError):
            stage = "crash"
        return self.tally.made(item, stage, error, before)

    def again(self, item: Item) -> Item | None:
        """The item for its next attempt; None when it is finished by being dropped."""
        try:
            found = self.chain.again(item, whole=self._whole)
        except Unavailable as error:
            return FailedItem(item.record, "decode", error)
        if found is None:
            self.tries.pop(coordinates(item), None)
        return found

    def is_early(self, item: Item) -> bool:
        """Whether the item has failed before and its next attempt is not due yet."""
        tries = self.tries.get(coordinates(item)) if self.tries else None
        return tries is not None and tries.due > time.monotonic()

    def acknowledge(self, place: Coordinates) -> None:
        """A deferred event is done; called from any thread."""
        with self._acknowledging:
            if self.deferred.pop(place, None) is None:
                # An action that flushes its batch inside `act` acknowledges the event that it is about to defer.
                self._early[place] = True
                if len(self._early) > _EARLY_AT_MOST:
                    self._early.pop(next(iter(self._early)), None)

    def forget(self, partition: Partition) -> None:
        """What was known of events of this partition counts no longer."""
        self.tries = {place: tries for place, tries in self.tries.items() if place[:2] != partition}
        self.deferred = {place: event for place, event in self.deferred.items() if place[:2] != partition}
        self._early = {place: early for place, early in self._early.items() if place[:2] != partition}

    def end_deferrals(self, owned: set[Partition]) -> None:
        """Events of these partitions that were not acknowledged in time have failed."""
        now = time.monotonic()
        for place, (event, until) in list(self.deferred.items()):
            if now >= until and place[:2] in owned and place in self.deferred:
                self.acknowledge(place)
                limit = self.spec.options.deferral_timeout
                if not self.tally.fail(event, "timeout", TimedOut(f"not acknowledged within {limit:g} s")):
                    self.deferred[place] = (event, until)

    def timed_out(self) -> TimedOut:
        return TimedOut(f"the action did not return within {self.timeout:g} s", hint="options.timeout sets the limit")


def coordinates(item: Item) -> Coordinates:
    record = item.record
    return record.topic(), record.partition(), record.offset()


def partition_of(item: Item) -> Partition:
    return item.record.topic(), item.record.partition()


def strand_of(ordering: str) -> Callable[[Item], Hashable]:
    """What must stay in order: events with the same strand."""
    if ordering == "partition":
        return partition_of
    return _key_strand if ordering == "key" else coordinates


def _key_strand(item: Item) -> Hashable:
    record = item.record
    key = record.key()
    # An event without a key has no order to keep with others.
    place = (record.topic(), record.partition())
    return (*place, key) if key is not None else (*place, None, record.offset())
