"""A simulated unit: what a worker process does with its share of a window, per kind of pipeline.

Rules modelled: within a partition (or key) the next act begins when the one before has ended; an event that waits for
its retry holds up what comes behind it in its order; a unit begins no act after its deadline, the window's `not_after`
or a request to stop; the outcome accounts for every offset that it covers. Nothing that a unit did counts before its
outcome was returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.core.dead_letter import Failure, Stage
from penstock.core.errors import Unavailable
from penstock.pipeline.messages import (
    Account,
    Assignment,
    Counts,
    FailedEvent,
    Halt,
    PartitionOutcome,
    Retry,
    UnitOutcome,
    UnitRequest,
)
from tests.simulation.log import LogRecord, PartitionLog
from tests.simulation.target import CursorKey, Fenced

if TYPE_CHECKING:
    from tests.simulation.workers import Worker
    from tests.simulation.world import PipelineModel, World

Verdict = Literal["done", "failed", "later", "deferred"]

READ_AHEAD = 6
"""Events that a keyed part holds at once."""
CHUNK = 4
"""Events of one batch, or of one transaction."""


@dataclass(slots=True)
class Waiting:
    """A retry as a unit holds it."""

    attempts: int
    first_failed_at: int
    due: float


class SimUnit:
    """One unit, run in a thread of its worker process."""

    def __init__(self, worker: Worker, request: UnitRequest, deadline: float, not_after: float | None) -> None:
        self.worker, self.request = worker, request
        self.world: World = worker.world
        self.model: PipelineModel = self.world.model(request.pipeline)
        self.deadline, self.not_after = deadline, not_after if not_after is not None else float("inf")
        self.stopping = False
        self.taken = 0
        self.outcome: UnitOutcome | None = None
        self.halt: Halt | None = None
        self.failures: list[FailedEvent] = []
        self.counts = Counts()
        self.parts: list[Part] = []

    def run(self) -> None:
        """Work until the unit ends, then leave the outcome for a window to collect."""
        kind = PARTS[self.model.kind]
        try:
            self.parts = [kind(self, index, a) for index, a in enumerate(self.request.assignments)]
            if self.request.last:
                for part in self.parts:
                    part.close()
            elif self.request.collect:
                self._collect()
            else:
                self._work()
            for part in self.parts:
                part.refresh()
        except Unavailable as error:
            self.halt = Halt("outage", error.code, str(error))
        self.outcome = self._outcome()
        self.worker.unit_ended(self)

    def _collect(self) -> None:
        """Wait for acknowledgements; nothing is read."""
        while not self.over and any(part.deferred for part in self.parts):
            due = min(at for part in self.parts for at in part.deferred.values())
            self.world.scheduler.block(max(0.001, min(due, self.deadline) - self.world.now))
            for part in self.parts:
                part.refresh()

    def _work(self) -> None:
        world = self.world
        while not self.over:
            if world.log.away:
                world.network.wait_out(1.0)
                self.halt = Halt("outage", "broker", "the brokers do not answer")
                return
            ready = [part for part in self.parts if part.prepare()]
            if ready:
                part = ready[int(world.rng.random() * len(ready))]
                part.step()
            elif all(part.ended for part in self.parts):
                return
            else:
                dues = [part.due for part in self.parts if part.due is not None]
                pause = min([self.deadline, *dues]) - world.now
                world.log.wait([part.log for part in self.parts if not part.ended], max(0.001, pause))

    @property
    def over(self) -> bool:
        """Nothing more may begin."""
        now = self.world.now
        return (
            self.stopping
            or self.halt is not None
            or now >= self.deadline
            or now >= self.not_after
            or self.taken >= self.request.max_records
            or self._is_before_a_suspect
        )

    @property
    def _is_before_a_suspect(self) -> bool:
        """An isolated unit ends where the next suspect is."""
        stop_at = self.request.stop_at
        return stop_at is not None and all(part.next >= stop_at for part in self.parts)

    def _outcome(self) -> UnitOutcome:
        request = self.request
        partitions = [part.outcome() for part in self.parts]
        return UnitOutcome(
            request.unit,
            request.pipeline,
            request.revision,
            "done",
            partitions,
            self.counts,
            failures=self.failures,
            halt=self.halt,
            more=any(not part.at_end for part in self.parts),
        )

    def fail(self, part: Part, record: LogRecord, stage: Stage, attempts: int, first: int | None = None) -> None:
        """The event has ended in failure."""
        now = self.model_millis()
        failure = Failure(
            stage=stage,
            error_code=stage,
            error_class="Simulated",
            error=f"{record.nature} event",
            traceback="",
            fingerprint=stage,
            attempts=attempts,
            first_failed_at=first or now,
            last_failed_at=now,
        )
        self.failures.append(FailedEvent(record.record, failure))
        self.world.judge.act_ended(part, record)
        self.counts.failed += 1
        if stage == "timeout":
            self.world.situations.reach("hang given up")

    def model_millis(self) -> int:
        return int(self.world.now * 1000)


class Part:
    """One partition of a unit. Subclasses are the ways of acting."""

    def __init__(self, unit: SimUnit, index: int, assignment: Assignment) -> None:
        self.unit, self.index, self.a = unit, index, assignment
        self.world, self.worker, self.model = unit.world, unit.worker, unit.model
        topic = self.world.log.topics.get(assignment.topic)
        self.gone = topic is None or topic.id != assignment.topic_id or assignment.partition >= len(topic.partitions)
        self.log: PartitionLog = (
            PartitionLog() if self.gone or topic is None else topic.partitions[assignment.partition]
        )
        self.next = assignment.next_offset
        self.pending: list[int] = sorted(assignment.pending)
        self.account = Account(began_at=assignment.next_offset, taken_over=len(assignment.pending))
        self.out_of_range = False
        self.blocked_until: float | None = None
        self.at_end = False
        self.deferred: dict[int, float] = {}
        """Offset and the time of its acknowledgement."""
        self.cursor_gap: tuple[int, int] | None = None
        now = self.world.now
        self.waits = {r.offset: Waiting(r.attempts, r.first_failed_at, now + r.wait) for r in assignment.retries}

    # -- reading ---------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        return self.gone or self.out_of_range

    @property
    def due(self) -> float | None:
        """When something can be done here that cannot now."""
        return None

    def prepare(self) -> bool:
        """Look at the log; True when there is something to do."""
        topic = self.world.log.topics.get(self.a.topic)
        if topic is None or topic.id != self.a.topic_id:
            self.gone = True
        elif not self.log.start <= self.next <= self.log.end:
            self.out_of_range = True
        return not self.ended and self.has_work()

    def has_work(self) -> bool:
        raise NotImplementedError

    def step(self) -> None:
        raise NotImplementedError

    def refresh(self) -> None:
        """Look once more before the outcome is made."""

    def close(self) -> None:
        """The action is closed."""

    def peek(self) -> LogRecord | None:
        """The next record; what holds none (markers, compacted offsets) is passed."""
        record = self.log.next_record(self.next)
        if record is None:
            self.next = max(self.next, self.log.stable_end)
            self.at_end = True
        else:
            self.at_end = False
        return record

    def missing(self, offset: int) -> bool:
        """A pending offset whose record is no longer in the log."""
        if offset in self.log.records:
            return False
        self.account.missing += 1
        self.pending.remove(offset)
        return True

    # -- acting ----------------------------------------------------------------------------

    def begin(self, *records: LogRecord) -> None:
        """Note these events in the in-flight log and begin to act."""
        offsets = [r.record.offset() for r in records]
        self.worker.working(self.unit, self.index, offsets)
        decoded = [record for record in records if record.nature != "undecodable"]
        if decoded:
            self.world.judge.act_begins(self, decoded)
        self.unit.taken += len(records)
        self.unit.counts.read += len(records)

    def finish_act(self, record: LogRecord) -> Verdict:
        """The rest of an act that has begun: its time, its faults, its verdict."""
        world, worker, offset = self.world, self.worker, record.record.offset()
        nature = record.nature
        worker.take_time(nature)
        if nature == "killer":
            worker.die(f"killed by {self.a.topic}/{self.a.partition}@{offset}")
        if nature == "stuck":
            worker.hold()
        if nature == "hanging":
            world.scheduler.block(self.model.timeout)
            worker.tainted = True
            self.unit.fail(self, record, "timeout", 1)
            return "failed"
        if nature == "undecodable":
            self.unit.fail(self, record, "decode", 1)
            return "failed"
        if nature == "poison":
            self.unit.fail(self, record, "act", 1)
            return "failed"
        if nature == "flaky":
            return self._try_flaky(record)
        return self.done(record)

    def done(self, record: LogRecord) -> Verdict:
        self.world.judge.act_done(self, record)
        self.unit.counts.acted += 1
        return "done"

    def _try_flaky(self, record: LogRecord) -> Verdict:
        offset = record.record.offset()
        key = (self.model.name, self.a.topic_id, self.a.partition, offset)
        self.world.attempts[key] += 1
        before = self.waits.pop(offset, None)
        attempts = (before.attempts if before else 0) + 1
        first = before.first_failed_at if before else self.unit.model_millis()
        if self.world.attempts[key] > record.failures:
            return self.done(record)
        if attempts >= self.model.attempts:
            self.unit.fail(self, record, "act", attempts, first)
            return "failed"
        self.unit.counts.retried += 1
        self.waits[offset] = Waiting(attempts, first, self.world.now + self.model.backoff * attempts)
        return "later"

    def count(self, verdict: Verdict) -> None:
        if verdict == "done":
            self.account.acted += 1
        elif verdict == "failed":
            self.account.failed += 1

    # -- the outcome -----------------------------------------------------------------------

    def outcome(self) -> PartitionOutcome:
        now = self.world.now
        retries = tuple(
            Retry(offset, w.attempts, w.first_failed_at, max(0.0, w.due - now))
            for offset, w in sorted(self.waits.items())
            if offset in self.pending or offset >= self.next
        )
        self.world.retrying[self.model.name, self.a.topic_id, self.a.partition] = bool(retries)
        return PartitionOutcome(
            self.a.topic,
            self.a.partition,
            self.a.epoch,
            self.next,
            tuple(sorted(self.pending)),
            retries,
            self.a.topic_id,
            self.account,
            cursor_gap=self.cursor_gap,
            blocked_for=None if self.blocked_until is None else max(0.01, self.blocked_until - now),
            at_end=self.at_end and not self.pending,
            out_of_range=self.out_of_range,
            gone=self.gone,
        )


class SerialPart(Part):
    """One event after the other; one that waits for its retry holds the partition."""

    def has_work(self) -> bool:
        if self.pending:
            return self._due(self.pending[0])
        record = self.peek()
        return record is not None and self._due(record.record.offset())

    def _due(self, offset: int) -> bool:
        waiting = self.waits.get(offset)
        if waiting is None or waiting.due <= self.world.now:
            self.blocked_until = None
            return True
        self.blocked_until = waiting.due
        return False

    @property
    def ended(self) -> bool:
        """A retry that is due before the unit's deadline is waited for."""
        blocked = self.blocked_until is not None and self.blocked_until >= self.unit.deadline
        return self.gone or self.out_of_range or blocked

    @property
    def due(self) -> float | None:
        return self.blocked_until

    def step(self) -> None:
        if self.pending:
            offset = self.pending[0]
            if not self.missing(offset):
                self._take_pending(self.log.records[offset])
            return
        record = self.peek()
        if record is None:
            return
        if record.nature == "filtered":
            self.filter()
        elif self.world.faults.skips_event():
            self.world.situations.reach("wrong sum refused")
            self.unit.stopping = True
            # The driver refuses the whole outcome and repeats its range.
            self.world.judge.deaths("a wrong sum", self.model.name)
        else:
            verdict = self.act(record)
            if verdict == "later":
                self.blocked_until = self.waits[record.record.offset()].due
                return
            self.count(verdict)
        self.account.read += 1
        self.next = record.record.offset() + 1

    def _take_pending(self, record: LogRecord) -> None:
        if record.nature == "filtered":
            self.filter()
        else:
            verdict = self.act(record)
            if verdict == "later":
                return
            self.count(verdict)
        self.pending.remove(record.record.offset())

    def filter(self) -> None:
        self.account.filtered += 1
        self.unit.counts.filtered += 1

    def act(self, record: LogRecord) -> Verdict:
        self.begin(record)
        verdict = self.finish_act(record)
        self.worker.idle(self.unit)
        return verdict


class BatchPart(SerialPart):
    """`act_batch`: a verdict for each event of a batch; the batch is in flight as a whole."""

    def step(self) -> None:
        if self.pending:
            super().step()
            return
        batch: list[LogRecord] = []
        at = self.next
        room = 1 if self.unit.request.careful else CHUNK
        while len(batch) < room and (record := self.log.next_record(at)) is not None:
            batch.append(record)
            at = record.record.offset() + 1
        acting = [record for record in batch if record.nature != "filtered"]
        if acting:
            self.begin(*acting)
        verdicts = {record.record.offset(): self._judge(record) for record in acting}
        self.worker.idle(self.unit)
        self.unit.counts.filtered += len(batch) - len(acting)
        for record in batch:
            self.account.read += 1
            if record.record.offset() in verdicts:
                self.count(verdicts[record.record.offset()])
            else:
                self.account.filtered += 1
        self.next = max(self.next, at)

    def act(self, record: LogRecord) -> Verdict:
        self.begin(record)
        verdict = self._judge(record)
        self.worker.idle(self.unit)
        return verdict

    def _judge(self, record: LogRecord) -> Verdict:
        verdict = self.finish_act(record)
        while verdict == "later":
            verdict = self.finish_act(record)
        return verdict


class KeyedPart(Part):
    """Several events at once; events of one key stay in order, a retry holds its key only."""

    def has_work(self) -> bool:
        while len(self.pending) < READ_AHEAD and (record := self.peek()) is not None:
            self.account.read += 1
            self.next = record.record.offset() + 1
            if record.nature == "filtered":
                self.account.filtered += 1
                self.unit.counts.filtered += 1
            else:
                self.pending.append(record.record.offset())
        for offset in list(self.pending):
            if not self.missing(offset) and self.log.records[offset].nature == "filtered":
                self.account.filtered += 1
                self.pending.remove(offset)
        return bool(self._eligible())

    def _eligible(self) -> list[LogRecord]:
        """The first unfinished event of each key, where it waits for nothing."""
        seen: set[bytes] = set()
        found = []
        for offset in self.pending:
            record = self.log.records[offset]
            if record.key not in seen:
                seen.add(record.key)
                waiting = self.waits.get(offset)
                if waiting is None or waiting.due <= self.world.now:
                    found.append(record)
        return found

    @property
    def due(self) -> float | None:
        return min((w.due for offset, w in self.waits.items() if offset in self.pending), default=None)

    def step(self) -> None:
        eligible = self._eligible()
        self.world.rng.shuffle(eligible)
        chosen = eligible[: 1 if self.unit.request.careful else 1 + int(self.world.rng.random() * 3)]
        self.begin(*chosen)
        left = [record.record.offset() for record in chosen]
        for record in chosen:
            verdict = self.finish_act(record)
            offset = record.record.offset()
            left.remove(offset)
            self.worker.working(self.unit, self.index, left)
            if verdict != "later":
                self.pending.remove(offset)
                self.count(verdict)
        self.worker.idle(self.unit)


class DeferredPart(SerialPart):
    """Acts in order; some events are finished only when they are acknowledged, seconds later.

    Acknowledgements live in the worker's memory, keyed by revision, topic id and epoch.
    """

    def __init__(self, unit: SimUnit, index: int, assignment: Assignment) -> None:
        super().__init__(unit, index, assignment)
        key = (self.model.name, unit.request.revision, assignment.topic_id, assignment.partition, assignment.epoch)
        self.deferred = self.worker.deferred.setdefault(key, {})
        for offset in set(self.deferred) - set(self.pending):
            del self.deferred[offset]  # the driver never used the outcome that reported it
        self.pending = [offset for offset in self.pending if offset not in self.deferred]

    def has_work(self) -> bool:
        self._acknowledge()
        if len(self.deferred) >= READ_AHEAD:
            return False
        return super().has_work()

    @property
    def due(self) -> float | None:
        waits = [*self.deferred.values(), *([] if self.blocked_until is None else [self.blocked_until])]
        return min(waits, default=None)

    @property
    def ended(self) -> bool:
        return super().ended and not self.deferred

    def _acknowledge(self, *, everything: bool = False) -> None:
        for offset, at in list(self.deferred.items()):
            if at <= self.world.now or everything:
                del self.deferred[offset]
                record = self.log.ever.get(offset)
                # The topic may be gone; what the action acknowledges counts all the same.
                self.count("done" if record is None else self.done(record))

    def act(self, record: LogRecord) -> Verdict:
        self.begin(record)
        offset = record.record.offset()
        if record.nature in ("plain", "slow") and offset % 3 == 0:
            self.worker.take_time(record.nature)
            self.deferred[offset] = self.world.now + self.world.rng.random() * 4
            self.world.judge.act_deferred(self, record)
            verdict: Verdict = "deferred"
        else:
            verdict = self.finish_act(record)
        self.worker.idle(self.unit)
        return verdict

    def refresh(self) -> None:
        self._acknowledge()

    def close(self) -> None:
        self._acknowledge(everything=True)

    def outcome(self) -> PartitionOutcome:
        self.pending = sorted({*self.pending, *self.deferred})
        self.world.deferring[self.model.name, self.a.topic_id, self.a.partition] = bool(self.deferred)
        outcome = super().outcome()
        outcome.deferred = len(self.deferred)
        return outcome


class TablePart(SerialPart):
    """Rows and the cursor in one transaction; the target's cursor decides where reading begins."""

    in_store = False

    def __init__(self, unit: SimUnit, index: int, assignment: Assignment) -> None:
        super().__init__(unit, index, assignment)
        self.key: CursorKey = (self.model.name, assignment.topic_id, assignment.partition)
        self.memory = (self.model.name, unit.request.revision, self.key, assignment.epoch)
        self.cursor: int | None = None
        self.opened = False

    def has_work(self) -> bool:
        if not self.opened:
            self._open()
        return self.peek() is not None

    def _open(self) -> None:
        """The cursor wins; below the log's start it is moved there."""
        target = self.world.target
        found = target.cursor(self.worker.process, self.key, in_store=self.in_store)
        if found is not None and found > self.a.next_offset:
            self.world.situations.reach("cursor ahead of the group")
        if found is not None and found < self.log.start:
            self.world.situations.reach("cursor below the log's start")
            start = max(self.log.start, self.a.log_start)
            target.write(self.worker.process, self.key, found, start, [], {}, in_store=self.in_store)
            self.cursor_gap, found = (found, start), start
        self.cursor = found
        self.next = self.a.next_offset if found is None else found
        self.pending = []
        self.account = Account(began_at=self.next)
        self.opened = True
        self._report_again()

    def _report_again(self) -> None:
        """Failures in the target that no outcome is known to have delivered. What this process has reported under the
        same revision and epoch is settled: else the partition would not be planned."""
        failures = self.world.target.failures.get(self.key, {})
        settled = self.worker.reported.get(self.memory, 0)
        for offset in [offset for offset in failures if offset < settled]:
            del failures[offset]
        for offset, stage in failures.items():
            if offset < self.next and (record := self.log.ever.get(offset)) is not None:
                self.unit.fail(self, record, "act" if stage == "act" else "decode", 1)

    def step(self) -> None:
        chunk: list[LogRecord] = []
        at = self.next
        room = 1 if self.unit.request.careful else CHUNK
        while len(chunk) < room and (record := self.log.next_record(at)) is not None:
            chunk.append(record)
            at = record.record.offset() + 1
        self.worker.working(self.unit, self.index, [r.record.offset() for r in chunk])
        self.unit.taken += len(chunk)
        rows, failed = [], {}
        for record in chunk:
            if record.nature in ("killer", "stuck"):
                self.worker.take_time(record.nature)
                (self.worker.die if record.nature == "killer" else self.worker.hold)("an event of a table")
            if record.nature in ("poison", "undecodable", "flaky", "hanging"):
                failed[record.record.offset()] = "decode" if record.nature == "undecodable" else "act"
            elif record.nature != "filtered":
                rows.append(record.record.offset())
        self.worker.take_time("plain")
        self.world.hook("before write", self.worker.backend.process)
        try:
            self.world.target.write(
                self.worker.process, self.key, self.cursor, at, rows, failed, in_store=self.in_store
            )
        except Fenced:
            # Another writer was there: what was read here is its matter. Begin again at its cursor.
            self.worker.idle(self.unit)
            self.unit.failures = [f for f in self.unit.failures if not self._mine(f)]
            self.opened = False
            return
        self.worker.idle(self.unit)
        for record in chunk:
            if record.record.offset() in failed:
                self.unit.fail(self, record, "act" if failed[record.record.offset()] == "act" else "decode", 1)
        self._count_chunk(chunk, rows, failed)
        self.next = self.cursor = at

    def _mine(self, failed: FailedEvent) -> bool:
        return (failed.record.topic(), failed.record.partition()) == self.a.key

    def _count_chunk(self, chunk: list[LogRecord], rows: list[int], failed: dict[int, str]) -> None:
        account, counts = self.account, self.unit.counts
        filtered = sum(record.nature == "filtered" for record in chunk)
        account.read += len(chunk)
        account.acted += len(rows)
        account.failed += len(failed)
        account.filtered += filtered
        counts.read += len(chunk)
        counts.acted += len(rows)
        counts.filtered += filtered

    def outcome(self) -> PartitionOutcome:
        if not self.opened:
            # Nothing is known of the target: nothing was done.
            self.next = self.a.next_offset
            self.pending = sorted(self.a.pending)
            self.account = Account(began_at=self.next, taken_over=len(self.pending))
        else:
            self.worker.reported[self.memory] = self.next
        return super().outcome()


class WorkOrderPart(TablePart):
    """As a table, in the store's own database."""

    in_store = True


PARTS: dict[str, Callable[[SimUnit, int, Assignment], Part]] = {
    "plain": SerialPart,
    "batch": BatchPart,
    "keyed": KeyedPart,
    "deferred": DeferredPart,
    "table": TablePart,
    "work order": WorkOrderPart,
}
