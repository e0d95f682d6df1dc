"""What all ways to run an action over prepared events share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.dead_letter import Stage
from penstock.core.deadline import Deadline
from penstock.core.errors import Unavailable
from penstock.core.event import Event
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import Runs
from penstock.pipeline.chain import Chain
from penstock.pipeline.in_flight_log import InFlightSlots
from penstock.pipeline.items import FailedItem, Item
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
_LOOK_FOR_ACKS = 0.02
"""Seconds between two looks at what is still deferred."""
_BLOCKED_WAIT = 1.0
"""Seconds after which a retry that an outage of a step before the action prevented is tried again."""


class ActionExecutor(ABC):
    """Runs the action over items that are fed in order; retries and deferred events stay here from unit to unit.

    The unit's thread calls `begin`, then `feed` and `wake` in turn, then `finish`. These may block: `feed` and `wake`
    as long as the action takes (a keyed executor: until there is room), `wait_idle` and `finish` until nothing is acted
    on. `stop`, `overdue` and `give_up` are called from another thread and never block. Nothing begins after the
    deadline, or once the executor is asked to stop.
    """

    overlaps = False
    """Whether waiting for one event leaves the process free for others: more processes would not help then."""
    concurrency = 1
    """Events that are acted on at once."""
    has_cursor = False
    """Whether the target has the position of each partition, in the transaction that has the rows."""
    cursor_gaps: Mapping[Partition, tuple[int, int]] = MappingProxyType({})
    """Cursors that were below the log's start and were moved there in this unit: from, to."""
    recreated: AbstractSet[Partition] = frozenset()
    """Partitions whose topic is another one than the one assigned: found in this unit."""

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        self.chain = chain
        self.action: Any = chain.action
        self.spec = spec
        self.clock = clock
        self.result: UnitResult
        self.deadline: Deadline
        self.slots = InFlightSlots.none()
        self.timeout = spec.options.timeout
        self.ordering_key: Callable[[Item], Hashable] = ordering_key_of(spec.ordering)
        self.retry_policy = RetryPolicy(spec.options.retry, clock, timeout=self.timeout)
        self.retries: dict[Coordinates, RetryState] = {}
        """Events that failed and wait for their next attempt."""
        self.deferred: dict[Coordinates, tuple[Event, float]] = {}
        """Events whose acknowledgement the action put off, and when their time is up."""
        self.stopping = False
        """True: no further act begins in this unit."""
        self.tainted = False
        """True: a thread of this process hangs in the action, and always will."""
        self._acknowledging = threading.Lock()
        self._early: dict[Coordinates, bool] = {}
        """Acknowledged before they were deferred, in order."""
        self._acknowledged: dict[Partition, int] = {}
        """Deferred events that are done, and are in no outcome yet."""
        self._quick = (0.0, 0)
        """Seconds and number of quick acts that are not noted yet."""
        self._whole = spec.options.retry.scope == "chain"

    # -- the interface ---------------------------------------------------------------------

    def begin(self, result: UnitResult, deadline: Deadline, slots: InFlightSlots | None = None) -> None:
        """A unit begins."""
        self.result = result
        self.deadline = deadline
        self.slots = slots or InFlightSlots.none()
        # F24: what was given up or stopped was the last unit.
        self.stopping = False

    def open_cursors(self, assignments: Sequence[Assignment], *, replays: bool) -> None:  # noqa: B027 - as `has_cursor` says
        """Read the positions that the target has of these partitions, all at once."""

    def start_offset(self, a: Assignment, *, replays: bool) -> int | None:  # noqa: ARG002 - as above
        """Where to read from, where the target decides; None: where the assignment says."""
        return None

    def verify_topics(self, client: KafkaClientConfig) -> None:  # noqa: B027 - as above
        """Check with this connection that records are of the assigned topic before they take effect."""

    def cursor(self, partition: Partition) -> int | None:  # noqa: ARG002 - as above
        """L1: the position to report, where the target decides; None: where the reader is."""
        return None

    def reported(self, outcomes: Iterable[PartitionOutcome]) -> None:  # noqa: B027 - as above
        """The unit's outcome is complete."""

    @abstractmethod
    def feed(self, items: list[Item], runs: Runs | None = None) -> None:
        """Work on these items, or queue them as far as there is room. `runs`: theirs, where the caller knows them."""

    def mark_consumed(self, ends: dict[Partition, int]) -> None:  # noqa: B027 - only a cursor needs it
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
    @abstractmethod
    def unfinished(self) -> bool:
        """Whether something that was fed in this unit is neither ended nor deferred."""

    @property
    def tail_only(self) -> bool:
        """Whether what is unfinished of a partition is always the tail of what was fed of it."""
        return self.spec.ordering == "partition"

    @property
    def busy(self) -> bool:
        """Whether other threads act on something."""
        return False

    def wait_idle(self) -> None:  # noqa: B027 - what acts in the unit's thread is always idle here
        """Wait until nothing is acted on."""

    @abstractmethod
    def finish(self) -> list[Item]:
        """Wait for what is acted on; return what is not finished."""

    def stop(self) -> None:
        """F16: begin no further act in this unit."""
        self.stopping = True

    def overdue(self, now: float) -> bool:  # noqa: ARG002 - keyed executors look after their own threads
        """Whether the unit's own thread is in an action for too long."""
        return False

    def give_up(self) -> tuple[list[Item], list[Item]] | None:
        """Called when overdue: the events that hang, and those not finished, these among them; None: the action has
        just returned. Nothing further begins in this unit."""
        self.stop()
        return None

    def close(self) -> None:  # noqa: B027 - only keyed executors have threads to end
        """End the executor's threads."""

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
        if result is None or result is True:
            self.result.add_acted(partition_of(item))
            if self.retries:
                self.retries.pop(coordinates(item), None)
            return "done"
        return self.unusual(item, result)

    def unusual(self, item: Event, result: Any) -> Verdict:
        """False defers; anything but None and True is a failure."""
        if result is False:
            place = coordinates(item)
            self.retries.pop(place, None)
            with self._acknowledging:
                early = self._early.pop(place, False)
                if not early:
                    self.deferred[place] = (item, self.clock.monotonic() + self.spec.options.deferral_timeout)
            if early:
                self.result.add_acted(place[:2])
                return "done"
            self.result.add_deferred()
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
        return "failed" if self.result.add_failure(judged) else "stop"

    def judge(self, item: Item, stage: Stage, error: BaseException) -> FailedEvent | Literal["later", "stop"]:
        """What an exception means for its event: a failure, which is not recorded yet, or another try."""
        place = coordinates(item)
        state = self.retries.get(place)
        if isinstance(error, Unavailable):
            if isinstance(item, FailedItem) and state is not None:
                # I6: an outage of a step before the action concerns this event alone, and is no attempt.
                self.retries[place] = replace(state, due=self.clock.monotonic() + _BLOCKED_WAIT)
                return "later"
            self.result.outage(error)
            return "stop"
        if stage in ("act", "timeout"):
            with self.result.lock:
                self.result.act_errors += 1
        again = self.retry_policy.after(error, state)
        if again is not None:
            self.retries[place] = again
            with self.result.lock:
                self.result.retried += 1
            return "later"
        self.retries.pop(place, None)
        if isinstance(error, MemoryError):
            stage = "crash"
        return self.result.build_failure(item, stage, error, state)

    def retry_steps(self, item: Item) -> Item | None:
        """The item for its next attempt; None: a step dropped it, which `dropped` has to count."""
        try:
            return self.chain.retry_steps(item, whole=self._whole)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it ends this event and not the executor's thread
            return FailedItem(item.record, "decode", error, item.value)

    def dropped(self, item: Item) -> Verdict:
        """An event that was tried again has ended by being dropped."""
        self.retries.pop(coordinates(item), None)
        self.result.add_filtered(partition_of(item))
        return "done"

    def is_early(self, item: Item) -> bool:
        """Whether the item has failed before and its next attempt is not due yet."""
        state = self.retries.get(coordinates(item)) if self.retries else None
        return state is not None and state.due > self.clock.monotonic()

    def forget(self, partition: Partition) -> None:
        """What was known of events of this partition counts no longer: they are read again."""
        with self._acknowledging:
            self.retries = {place: state for place, state in self.retries.items() if place[:2] != partition}
            self.deferred = {place: event for place, event in self.deferred.items() if place[:2] != partition}
            self._early = {place: early for place, early in self._early.items() if place[:2] != partition}
            self._acknowledged.pop(partition, None)

    # -- deferred events -------------------------------------------------------------------

    def acknowledge(self, place: Coordinates) -> None:
        """A deferred event is done; called from any thread."""
        with self._acknowledging:
            if self.deferred.pop(place, None) is not None:
                partition = place[:2]
                self._acknowledged[partition] = self._acknowledged.get(partition, 0) + 1
                return
            # An action that flushes its batch inside `act` acknowledges the event that it is about to defer.
            self._early[place] = True
            if len(self._early) > _EARLY_AT_MOST:
                self._early.pop(next(iter(self._early)), None)

    def take_acknowledged(self, owned: set[Partition]) -> dict[Partition, set[int]]:
        """Count the acknowledged events of these partitions as acted; return the offsets that are still deferred."""
        with self._acknowledging:
            found: dict[Partition, set[int]] = {}
            for place in self.deferred:
                found.setdefault(place[:2], set()).add(place[2])
            counts = {partition: self._acknowledged.pop(partition, 0) for partition in owned}
        for partition, count in counts.items():
            self.result.add_acted(partition, count)
        return found

    def wait_acknowledged(self, owned: set[Partition]) -> None:
        """Until nothing of these partitions is deferred, or the unit has to end."""
        while any(place[:2] in owned for place in list(self.deferred)) and not (self.stopping or self.deadline.expired):
            self.clock.sleep(_LOOK_FOR_ACKS)

    def end_deferrals(self, owned: set[Partition]) -> None:
        """Events of these partitions that were not acknowledged in time have failed."""
        now = self.clock.monotonic()
        for place, (event, until) in list(self.deferred.items()):
            if now < until or place[:2] not in owned:
                continue
            with self._acknowledging:
                if self.deferred.pop(place, None) is None:
                    continue
            limit = self.spec.options.deferral_timeout
            if not self.result.fail(event, "timeout", TimedOut(f"not acknowledged within {limit:g} s")):
                with self._acknowledging:
                    self.deferred[place] = (event, until)

    def timed_out(self) -> TimedOut:
        return TimedOut(f"the action did not return within {self.timeout:g} s", hint="options.timeout sets the limit")


def coordinates(item: Item) -> Coordinates:
    record = item.record
    return record.topic(), record.partition(), record.offset()


def partition_of(item: Item) -> Partition:
    return item.record.topic(), item.record.partition()


def ordering_key_of(ordering: str) -> Callable[[Item], Hashable]:
    """Events with the same ordering key are acted on in order."""
    if ordering == "partition":
        return partition_of
    return _by_key if ordering == "key" else coordinates


def _by_key(item: Item) -> Hashable:
    record = item.record
    key = record.key()
    # An event without a key has no order to keep with others.
    place = (record.topic(), record.partition())
    return (*place, key) if key is not None else (*place, None, record.offset())
