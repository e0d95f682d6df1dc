"""Acting by writing into a database: events are collected per partition and written a chunk at a time, each chunk in
one transaction with the partition's cursor."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import Unavailable
from penstock.core.event import Event
from penstock.pipeline.accounting import Runs
from penstock.pipeline.chain import Chain, FailedItem, Item
from penstock.pipeline.executors.executor import coordinates, partition_of
from penstock.pipeline.executors.inline import InlineExecutor
from penstock.pipeline.in_flight_log import InFlightSlots
from penstock.pipeline.messages import Assignment, FailedEvent, Partition
from penstock.pipeline.unit_result import UnitResult
from penstock.tables.action import Chunk, SqlAction
from penstock.tables.cursor import Place
from penstock.tables.errors import Fenced

log = logging.getLogger("penstock.table")

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(FailedEvent).decode

Collected = tuple[Item, FailedEvent | None]
"""An event to be written, or one that failed before it came here."""


class Part:
    """One partition, between its cursor in the database and what was fed of it."""

    __slots__ = ("began", "collected", "cursor", "end", "epoch", "place", "reported", "settled", "stopped")

    def __init__(self, place: Place, epoch: int, cursor: int) -> None:
        self.place = place
        self.epoch = epoch
        self.cursor = cursor
        self.end = cursor
        """Everything below was fed, or dropped by a filter."""
        self.collected: list[Collected] = []
        self.began = 0.0
        self.reported = 0
        """Failures below this offset were told to the driver."""
        self.settled: int | None = None
        """Failures below this offset are dead letters, and the database does not know it yet."""
        self.stopped = False
        """True: a chunk was not written to its end; nothing behind it is, within this unit."""


class TransactionalExecutor(InlineExecutor):
    """One chunk after the other."""

    action: SqlAction[Any]
    has_cursor = True

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self._size, self._seconds = self.action.batch_size, self.action.batch_seconds
        self._parts: dict[Partition, Part] = {}
        self._replays = False
        self._left: list[FailedEvent] = []
        self._throws = spec.options.failure_mode == "THROW"

    # -- where to begin --------------------------------------------------------------------

    def start_offset(self, a: Assignment, *, replays: bool) -> int | None:
        """The offset to read from: the database's cursor wins over the group's offset, and says so."""
        self._replays = replays
        place = Place(self.spec.name, a.topic_id, a.partition, a.topic)
        if replays:
            self._parts[a.key] = Part(place, a.epoch, a.next_offset)
            return None
        part = self._parts.get(a.key)
        if part is None or (part.epoch, part.place) != (a.epoch, place):
            cursor, left = self.action.open(place, a.next_offset)
            self._left += map(_DECODE, left)
            part = self._parts[a.key] = Part(place, a.epoch, cursor)
            if cursor != a.next_offset:
                where = f"{self.spec.name}: {a.topic}/{a.partition}"
                log.warning(
                    "%s: the table's cursor is %s, the group's offset %s; the cursor wins", where, cursor, a.next_offset
                )
        elif part.reported:
            # The driver plans a partition again only when all that was told of it is settled.
            part.settled, part.reported = part.reported, 0
        part.end, part.stopped = part.cursor, False
        return part.cursor

    def begin(self, result: UnitResult, deadline: Deadline, slots: InFlightSlots | None = None) -> None:
        super().begin(result, deadline, slots)
        # Failures of a process that died before it could tell them: settling them again changes nothing.
        for failed in self._left:
            self.result.failures.append(failed)
            self._parts[failed.record.topic(), failed.record.partition()].reported = failed.record.offset() + 1
        self._left = []

    # -- collecting ------------------------------------------------------------------------

    def _go(self, items: list[Item], runs: Runs | None = None) -> None:  # noqa: ARG002 - parts are looked up
        at = 0
        while at < len(items):
            item = items[at]
            if self.deadline.expired or self.stopping:
                break
            judged = self.judge(item, item.stage, item.error) if isinstance(item, FailedItem) else None
            if judged == "stop":
                break
            at += 1
            if judged == "later":
                self._queue.add(item, self.retries[coordinates(item)].due)
                items, at = self._ready(items[at:]), 0
                continue
            part = self._parts[partition_of(item)]
            if isinstance(judged, FailedEvent) and self._throws:
                # What went before is written; this one stays in front of the cursor.
                part.end = max(part.end, item.record.offset())
                if self._flush(part):
                    self.result.add_failure(judged)
                at -= 1
                break
            if not part.collected:
                part.began = self.clock.monotonic()
            part.collected.append((item, judged if isinstance(judged, FailedEvent) else None))
            if len(part.collected) >= self._size and not self._flush(part):
                break
        self._rest += items[at:]

    def mark_consumed(self, ends: dict[Partition, int]) -> None:
        waiting = self.waiting
        open_ = {partition_of(item) for item in self._rest}
        for partition, end in ends.items():
            if partition not in open_:
                self._parts[partition].end = min([end, *waiting.get(partition, ())])

    def wake(self) -> None:
        super().wake()
        now = self.clock.monotonic()
        for part in self._parts.values():
            if part.collected and now >= part.began + self._seconds:
                self._flush(part)

    @property
    def next_due(self) -> float | None:
        due = [part.began + self._seconds for part in self._parts.values() if part.collected]
        if (parked := super().next_due) is not None:
            due.append(parked)
        return min(due, default=None)

    @property
    def unfinished(self) -> bool:
        return super().unfinished or any(part.collected for part in self._parts.values())

    def wait_idle(self) -> None:
        for part in self._parts.values():
            self._flush(part)

    def finish(self) -> list[Item]:
        self.wait_idle()
        for part in self._parts.values():
            self._rest += [item for item, _ in part.collected]
            part.collected = []
        return super().finish()

    def overdue(self, now: float) -> bool:  # noqa: ARG002 - a transaction has time-outs of its own, and hurts no event
        return False

    def forget(self, partition: Partition) -> None:
        super().forget(partition)
        if part := self._parts.get(partition):
            part.collected = []

    # -- writing ---------------------------------------------------------------------------

    def _flush(self, part: Part) -> bool:
        """Write what is collected; False when the database is away: then it is collected still."""
        if part.stopped or (self.result.halt is not None and self.result.halt.kind == "outage"):
            return False
        if not part.collected and part.end <= part.cursor:
            return True
        try:
            self._put_again(part) if self._replays else self._put(part)
        except Unavailable as error:
            if isinstance(error, Fenced):
                # Where it stands now is found out when, and if, the partition is planned again.
                del self._parts[part.place.topic, part.place.partition]
                self._rest += [item for item, _ in part.collected]
                part.collected = []
            self.result.outage(error)
            return False
        return not part.stopped

    def _put(self, part: Part) -> None:
        events = [item for item, failed in part.collected if failed is None]
        before = [failed for _, failed in part.collected if failed is not None]
        refused: dict[int, FailedEvent] = {}

        def encode(event: Event, error: Exception) -> bytes:
            refused[event.record.offset()] = self.result.build_failure(event, "write", error)
            return _ENCODE(refused[event.record.offset()])

        end = max([part.end, *(item.record.offset() + 1 for item, _ in part.collected[-1:])])
        chunk = Chunk(
            part.place,
            part.cursor,
            end,
            events,  # type: ignore[arg-type]  # what did not fail is an event
            [(failed.record.offset(), _ENCODE(failed)) for failed in before],
            encode,
            throws=self._throws,
            settled=part.settled,
        )
        began = self.clock.monotonic()
        self.slots.begin_ranges({(part.place.topic, part.place.partition): (part.cursor, end)})
        try:
            written = self.action.put(chunk)
        finally:
            self.slots.end_ranges()
        self.chain.times.add("write", self.clock.monotonic() - began, len(events))
        part.settled = None
        part.cursor = written.end
        done = [each for each in part.collected if each[0].record.offset() < written.end]
        self._count(part, done, refused)
        if events:
            self.result.sample(events[-1])
        left = [each for each in part.collected if each[0].record.offset() >= written.end]
        part.collected = []
        if left:
            self._rest += [item for item, _ in left]
            part.end, part.stopped = written.end, True
        if written.waits is not None:
            self.result.outage(written.waits)
        elif left:
            # With THROW the chunk ended at an event that the database refuses.
            event, error = written.refused[0]
            self.result.add_failure(self.result.build_failure(event, "write", error))

    def _put_again(self, part: Part) -> None:
        events = [item for item, failed in part.collected if failed is None]
        refused = self.action.put_again(part.place, events)  # type: ignore[arg-type]  # as above
        made = {event.record.offset(): self.result.build_failure(event, "write", error) for event, error in refused}
        self._count(part, part.collected, made)
        part.collected = []
        part.cursor = part.end

    def _count(self, part: Part, done: list[Collected], refused: dict[int, FailedEvent]) -> None:
        """In their order, for the breaker looks at the last ones."""
        for item, failed in done:
            failure = failed or refused.get(item.record.offset())
            if failure is None:
                self.result.add_acted(partition_of(item))
            else:
                part.reported = item.record.offset() + 1
                self.result.add_failure(failure)
