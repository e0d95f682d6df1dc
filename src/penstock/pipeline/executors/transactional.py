"""Acting by writing into a database: events are collected per partition and written a chunk at a time, each chunk in
one transaction with the partition's cursor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import Unavailable
from penstock.core.event import Event
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import Runs
from penstock.kafka.topic_identity import TopicIdentity, is_substitute
from penstock.pipeline.chain import Chain
from penstock.pipeline.executors.executor import coordinates, partition_of
from penstock.pipeline.executors.inline import InlineExecutor
from penstock.pipeline.in_flight_log import InFlightSlots
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.messages import Assignment, FailedEvent, Partition, PartitionOutcome
from penstock.pipeline.unit_result import UnitResult
from penstock.tables.action import Chunk, Opening, SqlAction, Written
from penstock.tables.cursor import Place
from penstock.tables.errors import Fenced, TargetUnavailable

log = logging.getLogger("penstock.table")

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(FailedEvent).decode
Collected = tuple[Item, FailedEvent | None]
"""An event to be written, or one that failed before it came here."""


class TopicRecreated(Unavailable):
    """The topic that was assigned does not exist any more; its name may stand for another one."""

    code = "topic-recreated"


class Part:
    """One partition of the unit: its cursor in the database, and what was fed since."""

    __slots__ = (
        *("assignment", "began", "collected", "cursor", "end", "left", "place"),
        *("settled", "stopped", "unsettled"),
    )

    def __init__(self, assignment: Assignment, place: Place, cursor: int) -> None:
        self.assignment = assignment
        self.place = place
        self.cursor = cursor
        self.end = cursor
        """Everything below was fed, or dropped by a filter."""
        self.collected: list[Collected] = []
        self.began = 0.0
        """Monotonic time at which the first of them was collected."""
        self.left: list[FailedEvent] = []
        """Failures below the cursor that a dead process had not reported."""
        self.settled: int | None = None
        """Failures below this offset are dead letters, which the next chunk notes in the database."""
        self.unsettled = False
        """Whether this unit reports failures of it, which the database has as open."""
        self.stopped = False
        """True: a chunk was not written to its end; the unit writes nothing more of this partition."""


class TransactionalExecutor(InlineExecutor):
    """Writes one chunk after the other. The partition's position is its cursor, which every unit reads again (L5)."""

    action: SqlAction[Any]
    has_cursor = True
    """An event that hangs or kills is passed over in the target by the driver; the unit only names it as a suspect."""

    def __init__(self, chain: Chain, spec: PipelineSpec, clock: Clock = SYSTEM) -> None:
        super().__init__(chain, spec, clock)
        self.action.clock = clock
        self._size, self._seconds = self.action.batch_size, self.action.batch_seconds
        self._throws = spec.options.failure_mode == "THROW"
        self._replays = False
        self._waits = False
        """True: the database takes nothing more in this unit. An outage elsewhere, as of a registry, does not say that:
        what was read before is written."""
        self._finished = True
        """True: the last unit is over; its parts serve its report only."""
        self._parts: dict[Partition, Part] = {}
        self._reported: dict[Partition, tuple[Place, int, int]] = {}
        """L4: place, epoch and next offset of an outcome with failures. An assignment that continues from exactly there
        says that they are dead letters. Lost with the process: then they are reported again, which changes nothing."""
        self._topics: TopicIdentity | None = None
        self._unopened: TargetUnavailable | None = None
        """Why this unit's cursors could not be read, where its messages are copied to alternate storage."""
        self.recreated: set[Partition] = set()
        self.cursor_gaps: dict[Partition, tuple[int, int]] = {}

    # -- where to begin --------------------------------------------------------------------

    def open_cursors(self, assignments: Sequence[Assignment], *, replays: bool) -> None:
        """Read the cursors of these partitions in one query; `start_offset` then answers from memory.

        Blocks for one transaction. Raises `Unavailable` where the database does not answer, and `Fenced` where another
        instance opens the same partition for the first time.
        """
        if self._finished:
            self._parts, self.cursor_gaps, self.recreated, self._finished = {}, {}, set(), False
            self._unopened = None
        self._replays = replays
        if replays:
            for a in assignments:
                self._parts[a.key] = Part(a, self._place(a), a.next_offset)
            return
        settled = {a.key: self._settled(a) for a in assignments}
        # An event that another kind of action left pending was never written here.
        wanted = [
            Opening(self._place(a), min(a.pending, default=a.next_offset), a.log_start, settled[a.key] or 0)
            for a in assignments
        ]
        try:
            opened = self.action.open_all(wanted)
        except TargetUnavailable as error:
            if isinstance(error, Fenced) or not self.action.copies:
                self._finished = True
                raise
            # Nothing is written in this unit; what it reads is copied to alternate storage, as Lightning does.
            self._unopened = error
            for a, opening in zip(assignments, wanted, strict=True):
                self._parts[a.key] = Part(a, opening.place, a.next_offset)
            return
        except BaseException:
            self._finished = True
            raise
        for a, opening, found in zip(assignments, wanted, opened, strict=True):
            part = self._parts[a.key] = Part(a, opening.place, found.cursor)
            part.left = [_DECODE(failure) for failure in found.failures]
            part.settled = settled[a.key]
            if found.moved_from is not None:
                self.cursor_gaps[a.key] = found.moved_from, found.cursor
            self._log_difference(a, found.cursor, found.moved_from)

    def _place(self, a: Assignment) -> Place:
        # L4: the topic id is the assignment's, for all that is read and written under it.
        return Place(self.spec.name, a.topic_id, a.partition, a.topic)

    def _settled(self, a: Assignment) -> int | None:
        """Failures below this offset were settled: the driver continues where their outcome ended."""
        reported = self._reported.get(a.key)
        return a.next_offset if reported == (self._place(a), a.epoch, a.next_offset) else None

    def _log_difference(self, a: Assignment, cursor: int, moved_from: int | None) -> None:
        where = f"{self.spec.name}: {a.topic}/{a.partition}"
        if moved_from is not None:
            text = "%s: the table's cursor %s is below the log's start %s; the events between are gone"
            log.warning(text, where, moved_from, cursor)
        elif cursor != a.next_offset:
            text = "%s: the table's cursor is %s, the group's offset %s; the cursor wins"
            log.warning(text, where, cursor, a.next_offset)

    def start_offset(self, a: Assignment, *, replays: bool) -> int | None:
        """The cursor, which wins over the group's offset and its pending offsets; None: a replay has no cursor."""
        part = self._parts.get(a.key)
        if self._finished or part is None or part.assignment is not a:
            self.open_cursors([a], replays=replays)
        return None if replays else self._parts[a.key].cursor

    def begin(self, result: UnitResult, deadline: Deadline, slots: InFlightSlots | None = None) -> None:
        super().begin(result, deadline, slots)
        self._waits = False
        # I1: failures that a dead process left come first; settling them again changes nothing.
        for part in self._parts.values():
            if part.left:
                self.result.failures += part.left
                part.left, part.unsettled = [], True

    # -- where it ends ---------------------------------------------------------------------

    def cursor(self, partition: Partition) -> int | None:
        """L1: the position to report; None: of a replay, which has none. Everything read below it is accounted for."""
        part = self._parts.get(partition)
        return None if part is None or self._replays else part.cursor

    def reported(self, outcomes: Iterable[PartitionOutcome]) -> None:
        """The unit's outcome is complete and has its failures: the last call of a unit that did not raise."""
        for outcome in outcomes:
            part = self._parts.get(outcome.key)
            self._reported.pop(outcome.key, None)
            if part is None or self._replays or outcome.next_offset != part.cursor:
                continue
            if part.unsettled or part.settled is not None:
                self._reported[outcome.key] = part.place, part.assignment.epoch, part.cursor

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
        """All that was read below these offsets was fed, or dropped by a filter."""
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
        due = [part.began + self._seconds for part in self._parts.values() if part.collected and not part.stopped]
        if (parked := super().next_due) is not None:
            due.append(parked)
        return min(due, default=None)

    @property
    def unfinished(self) -> bool:
        """Also what was dropped by a filter and the cursor has not passed yet."""
        return super().unfinished or any(part.collected or part.end > part.cursor for part in self._parts.values())

    def wait_idle(self) -> None:
        for part in self._parts.values():
            self._flush(part)

    def finish(self) -> list[Item]:
        self.wait_idle()
        for part in self._parts.values():
            self._give_back(part)
        if self._unopened is not None:
            self.result.outage(self._unopened)
        self._finished = True
        return super().finish()

    def forget(self, partition: Partition) -> None:
        super().forget(partition)
        if part := self._parts.get(partition):
            part.collected = []

    # -- writing ---------------------------------------------------------------------------

    def _flush(self, part: Part) -> bool:
        """Write what is collected; False where it was not written, or not to its end."""
        if part.stopped or self._waits:
            return False
        if self._unopened is not None:
            return self._set_aside(part, self._unopened)
        if not part.collected and part.end <= part.cursor:
            return True
        try:
            if self._replays:
                self._write_again(part)
            else:
                self._write(part)
        except Unavailable as error:
            # I5: whether a COMMIT without an answer was carried out is read from the cursor, by the next unit. Nothing
            # of the chunk is counted here.
            part.stopped = True
            # A fenced partition does not keep the others of the unit from being written.
            self._waits = self._waits or not isinstance(error, Fenced | TopicRecreated)
            self._give_back(part)
            self.result.outage(error)
            return False
        return not part.stopped

    def _set_aside(self, part: Part, error: TargetUnavailable) -> bool:
        """The cursors could not be read: copy what is in hand, and write nothing."""
        if part.collected:
            self.action.set_aside(part.place, [item for item, _ in part.collected if isinstance(item, Event)])
            part.stopped = self._waits = True
            self._give_back(part)
            self.result.outage(error)
        return False

    def _give_back(self, part: Part) -> None:
        self._rest += [item for item, _ in part.collected]
        part.collected = []

    def _write(self, part: Part) -> None:
        events = [item for item, failed in part.collected if failed is None]
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
            [(failed.record.offset(), _ENCODE(failed)) for _, failed in part.collected if failed is not None],
            encode,
            throws=self._throws,
            settled=part.settled,
            confirm=self._confirmation(part),
        )
        began = self.clock.monotonic()
        self.slots.begin_ranges({part.assignment.key: (part.cursor, end)})
        try:
            written = self.action.put(chunk)
        finally:
            self.slots.end_ranges()
        self.chain.times.add("write", self.clock.monotonic() - began, len(events))
        self._accept(part, written, refused)
        if events:
            self.result.sample(events[-1])

    def _accept(self, part: Part, written: Written, refused: dict[int, FailedEvent]) -> None:
        """The transaction is durable: everything below the new cursor is done, and counted here alone."""
        part.cursor, part.settled = written.end, None
        done = [each for each in part.collected if each[0].record.offset() < written.end]
        part.collected = [each for each in part.collected if each[0].record.offset() >= written.end]
        self._count(part, done, refused)
        cut = bool(part.collected)
        if cut:
            self._give_back(part)
            part.end, part.stopped = written.end, True
        if written.waits is not None:
            self._waits = True
            self.result.outage(written.waits)
        elif cut:
            # With THROW the chunk ended at an event that the database refuses.
            event, error = written.refused[0]
            self.result.add_failure(self.result.build_failure(event, "write", error))

    def _write_again(self, part: Part) -> None:
        events = [item for item, failed in part.collected if failed is None]
        refused = self.action.put_again(part.place, events)  # type: ignore[arg-type]  # as above
        made = {event.record.offset(): self.result.build_failure(event, "write", error) for event, error in refused}
        self._count(part, part.collected, made)
        part.collected = []
        part.cursor = part.end

    def _count(self, part: Part, done: list[Collected], refused: dict[int, FailedEvent]) -> None:
        """In their order: the breaker looks at the last ones."""
        for item, failed in done:
            failure = failed or refused.get(item.record.offset())
            if failure is None:
                self.result.add_acted(partition_of(item))
            else:
                part.unsettled = True
                self.result.add_failure(failure)

    # -- a topic that was created again ----------------------------------------------------

    def verify_topics(self, client: KafkaClientConfig) -> None:
        self._topics = TopicIdentity.of(client)

    def _confirmation(self, part: Part) -> Callable[[], None]:
        """I5: records of a topic that was deleted and created again are not written under the former topic's cursor.

        The client asks for records by the topic's name and offset, and reads on in the new topic where that is long
        enough. So the id is asked for after the records were read, beside the statements of the transaction, and
        compared before the COMMIT.
        """
        place = part.place
        if self._topics is None or is_substitute(place.topic_id, place.topic):
            return lambda: None
        answer = self._topics.ask(place.topic)

        def confirm() -> None:
            if answer() != place.topic_id:
                self.recreated.add(part.assignment.key)
                raise TopicRecreated(f"{place.topic} is another topic than the one that was assigned")

        return confirm
