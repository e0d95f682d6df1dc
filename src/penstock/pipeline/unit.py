"""One unit at work: read, prepare, act until the deadline; then say per partition how far it came."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Transient, Unavailable
from penstock.core.event import RecordLike
from penstock.kafka.partition_reader import Batch
from penstock.pipeline.bounded_reader import bounded
from penstock.pipeline.built_pipeline import BuiltPipeline
from penstock.pipeline.chain import FailedItem, Item
from penstock.pipeline.crash_note import note_event_begun
from penstock.pipeline.executors.executor import partition_of
from penstock.pipeline.in_flight_log import Pages
from penstock.pipeline.messages import Halt, Partition, PartitionOutcome, UnitOutcome, UnitRequest
from penstock.pipeline.report import holds, report
from penstock.pipeline.samples import Sample, Sampler, open_places
from penstock.pipeline.unit_result import UnitResult

_BATCH = 2_000
"""Records per read: large enough that its fixed costs vanish, small enough that the deadline is kept."""
_CREATE_WITHIN = 120.0
"""Seconds that making a pipeline's plug-ins may take: an action may load a model, but not hang."""


class UnknownBlueprint(LookupError):
    """The process does not have the blueprint that the driver thinks it has."""


class UnitRun(threading.Thread):
    """Runs in a thread of its own, so that units wait for Kafka side by side and a slow one can be left behind."""

    def __init__(
        self,
        request: UnitRequest,
        build: Callable[[UnitRequest], BuiltPipeline],
        deadline: Deadline,
        pages: Pages | None = None,
    ) -> None:
        super().__init__(name=f"unit-{request.pipeline}", daemon=True)
        self.request = request
        self.deadline = deadline
        self.pages = pages
        self.outcome = UnitOutcome(request.unit, request.pipeline, request.revision, "done")
        self.over = threading.Event()
        """Set when the outcome is complete."""
        self.hangs = False
        """True: its thread was given up."""
        self._build = build
        self._pipeline: BuiltPipeline | None = None
        self._began = time.monotonic()
        self._cpu = 0.0
        self._idle = 0.0
        self._unprepared: list[RecordLike] = []
        self._unfed: list[Item] = []
        self._preparing: tuple[list[RecordLike], float] | None = None
        self._claim = threading.Lock()

    def run(self) -> None:
        try:
            pipeline = self._pipeline = self._build(self.request)
        except BaseException as error:  # noqa: BLE001 - a plug-in that cannot be created is the pipeline's trouble, whatever it raises
            self._end_with(_build_halt(error))
            _show_place(error)
            return
        self._began, self._cpu = time.monotonic(), time.process_time()
        try:
            unfinished = self._work(pipeline)
            if self._claim.acquire(blocking=False):
                self._report(pipeline, unfinished)
                self.over.set()
        except BaseException as error:  # noqa: BLE001 - a unit must always have an outcome, or its partitions would never be planned again
            text = pipeline.scrub("".join(traceback.format_exception_only(error)).strip())
            code = getattr(error, "code", type(error).__name__)
            self._end_with(Halt("outage" if isinstance(error, Transient) else "error", code, text))
            _show_place(error)

    def _end_with(self, halt: Halt) -> None:
        """Nothing counts as done: the same offsets are planned again."""
        if not self.over.is_set():
            self.outcome.halt = halt
            self.outcome.failures = []
            self.outcome.partitions = [
                PartitionOutcome(a.topic, a.partition, a.epoch, a.next_offset, a.pending, a.retries)
                for a in self.request.assignments
            ]
            self.over.set()

    # -- work ------------------------------------------------------------------------------

    def _work(self, pipeline: BuiltPipeline) -> list[Item]:
        """Returns what is not finished."""
        acting, request = pipeline.acting, self.request
        pipeline.pacer.rate = request.rate
        chain = pipeline.chain
        chain.tap = Sampler(request.tap, pipeline.scrub, transforms=chain.has_transforms) if request.tap else None
        if request.bounds is not None:
            pipeline.reader = bounded(pipeline.reader, request.bounds)
        rest = pipeline.place(request.assignments)
        tally = UnitResult(
            pipeline.scrub,
            throw=pipeline.spec.options.failure_mode == "THROW",
            breaker=None if request.careful else pipeline.breaker,
            again_below=pipeline.again_below,
        )
        owned = {a.key for a in request.assignments}
        acting.begin(tally, self.deadline, self.pages, exact=not any(a.pending for a in request.assignments))
        if request.last:
            self._unfed = rest
            pipeline.close_action()
            return acting.finish()
        acting.end_deferrals(owned)
        # Whatever waits for a retry leaves room for the other partitions.
        read, room = 0, max(1, request.max_records - len(rest))
        share = max(1, request.max_records // (2 * len(owned)))
        try:
            self._take_up(pipeline, rest)
            while not (self.deadline.expired or tally.full or self._unfed) and read < room:
                acting.wake()
                due = acting.next_due
                if pipeline.reader.exhausted and (due is None or due >= self.deadline.at):
                    break
                held = holds(pipeline, share)
                pipeline.reader.hold(held)
                if held >= owned and (due is None or due >= self.deadline.at) and not acting.busy:
                    # Everything waits for a retry that comes after this unit.
                    break
                if request.careful and not acting.busy and all(map(pipeline.reader.at_end, owned)):
                    break
                limit = 1 if request.careful else min(_BATCH, share, room - read)
                batch = self._read(pipeline, limit, due)
                if batch is not None:
                    if not self._take(pipeline, batch):
                        break
                    read += len(batch.records)
        finally:
            unfinished = acting.finish()
        self.outcome.counts.read = read
        return unfinished

    def _take_up(self, pipeline: BuiltPipeline, rest: list[Item]) -> None:
        """What the last unit left comes first, within the same limits as what is read."""
        most = self.request.max_records
        step = 1 if self.request.careful else max(1, min(most, len(rest)))
        for at in range(0, min(most, len(rest)), step):
            self._feed(pipeline, rest[at : at + step])
            if self.request.careful:
                pipeline.acting.wait_idle()
            if self._unfed:
                self._unfed += rest[at + step :]
                return
        self._unfed = rest[most:]
        if rest and not self._unfed:
            pipeline.acting.mark_consumed({a.key: pipeline.next_offset(a.key) for a in self.request.assignments})

    def _read(self, pipeline: BuiltPipeline, limit: int, due: float | None) -> Batch | None:
        began = time.monotonic()
        timeout = self.deadline.remaining
        if due is not None:
            timeout = max(0.0, min(timeout, due - began))
        batch = pipeline.read(limit, timeout)
        self._idle += time.monotonic() - began
        return batch

    def _take(self, pipeline: BuiltPipeline, batch: Batch) -> bool:
        """Prepare a batch and act on it; False when there was an outage."""
        acting, pages = pipeline.acting, self.pages
        if pages is None:
            note_event_begun()
        if pages is not None:
            pages.working(_exactly(batch) if self.request.careful else batch.starts, batch.ends)
        self._preparing = (batch.records, time.monotonic())
        try:
            items = pipeline.chain.prepare(batch.records)
        except Unavailable as error:
            # I6: an outage concerns no event; what was read is read again by the next unit.
            acting.tally.outage(error)
            self._unprepared = batch.records
            return False
        finally:
            self._preparing = None
        if pages is not None:
            pages.idle()
        self.outcome.counts.filtered += len(batch.records) - len(items)
        self._feed(pipeline, items)
        if not self._unfed:
            acting.mark_consumed(batch.ends)
        if self.request.careful:
            acting.wait_idle()
        if pages is not None and not self._unfed and acting.all_done:
            pages.done(batch.ends)
        return True

    def _feed(self, pipeline: BuiltPipeline, items: list[Item]) -> None:
        """At the pace of the rate limit; what may not begin in this unit is kept."""
        if pipeline.chain.tap is not None:
            pipeline.chain.tap.handed(items)
        if pipeline.pacer.rate is None:
            if items:
                pipeline.acting.feed(items)
            return
        at = 0
        while at < len(items) and not pipeline.acting.tally.full:
            began = time.monotonic()
            allowed = pipeline.pacer.allow(len(items) - at, self.deadline)
            self._idle += time.monotonic() - began
            if allowed == 0:
                break
            pipeline.acting.feed(items[at : at + allowed])
            at += allowed
        self._unfed = items[at:]

    # -- the end ---------------------------------------------------------------------------

    def _report(
        self, pipeline: BuiltPipeline, unfinished: list[Item], suspects: dict[Partition, int] | None = None
    ) -> None:
        tally, counts, outcome = pipeline.acting.tally, self.outcome.counts, self.outcome
        tally.end()
        counts.acted, counts.failed, counts.retried = tally.acted, len(tally.failures), tally.retried
        counts.act_errors = tally.act_errors
        dropped = pipeline.chain.take_dropped()
        counts.unrouted, counts.early = dropped.unrouted, dropped.early
        outcome.steps = [counter.take() for counter in pipeline.chain.counters]
        outcome.times = pipeline.chain.times.take()
        outcome.failures, outcome.latencies, outcome.halt = list(tally.failures), tally.latencies, tally.halt
        outcome.busy = time.monotonic() - self._began - self._idle
        if pipeline.acting.overlaps:
            outcome.busy = min(outcome.busy, time.process_time() - self._cpu)
        report(outcome, self.request, pipeline, [*unfinished, *self._unfed], self._unprepared)
        if pipeline.chain.tap is not None:
            outcome.samples = self._samples(pipeline, pipeline.chain.tap, unfinished)
        if pipeline.foreign is not None:
            pipeline.foreign.tell(outcome)
        for part in outcome.partitions:
            if suspects and part.key in suspects:
                part.suspect_until = suspects[part.key]

    def _samples(self, pipeline: BuiltPipeline, tap: Sampler, unfinished: list[Item]) -> list[Sample]:
        acting = pipeline.acting
        failed = {
            (record.topic(), record.partition(), record.offset()): each.failure.error
            for each in acting.tally.failures
            for record in [each.record]
        }
        return tap.ended(failed, open_places([*unfinished, *self._unfed], list(acting.deferred), list(acting.tries)))

    @property
    def overdue(self) -> bool:
        """Whether user code has not returned for longer than it may."""
        now, pipeline, preparing = time.monotonic(), self._pipeline, self._preparing
        if self.over.is_set():
            return False
        if pipeline is None:
            return now - self._began > _CREATE_WITHIN
        if preparing is not None:
            return now - preparing[1] > pipeline.acting.timeout and not pipeline.acting.busy
        return pipeline.acting.overdue(now)

    def abandon(self) -> None:
        """Give the thread up, from another one: what it is at has failed, or is tried alone; the rest is unfinished."""
        pipeline, preparing = self._pipeline, self._preparing
        if pipeline is None:
            if self._claim.acquire(blocking=False):
                self.hangs = True
                self._end_with(Halt("error", "timeout", f"create did not return within {_CREATE_WITHIN:g} s"))
            return
        hanging: list[Item]
        if preparing is not None:
            pipeline.acting.give_up()
            hanging = [FailedItem(record, "decode", pipeline.acting.timed_out()) for record in preparing[0]]
            unfinished = [*hanging, *pipeline.acting.finish()]
        elif (found := pipeline.acting.give_up()) is not None:
            hanging, unfinished = found
        else:
            return
        if not self._claim.acquire(blocking=False):
            return
        self.hangs = True
        suspects: dict[Partition, int] = {}
        if len(hanging) == 1:
            verdict = pipeline.acting.fail(hanging[0], "timeout", pipeline.acting.timed_out())
            if verdict == "failed":
                unfinished = [item for item in unfinished if item is not hanging[0]]
        else:
            suspects = {partition_of(item): item.record.offset() + 1 for item in hanging}
        self._report(pipeline, unfinished, suspects)
        self.over.set()


def _build_halt(error: BaseException) -> Halt:
    if isinstance(error, UnknownBlueprint):
        return Halt("unknown", "unknown", str(error))
    if isinstance(error, Transient):
        return Halt("outage", getattr(error, "code", "outage"), str(error))
    if isinstance(error, PenstockError) and isinstance(error, Terminal):
        return Halt("build", error.code, str(error))
    if isinstance(error, SystemExit):
        return Halt("error", "SystemExit", f"create called sys.exit({error.code})")
    return Halt("error", type(error).__name__, f"{type(error).__name__}: {error}")


def _show_place(error: BaseException) -> None:
    """Where a mistake of our own is, in the log: no letter has it. I8: without its words, which may hold secrets."""
    if not isinstance(error, PenstockError | Transient | SystemExit | UnknownBlueprint):
        traceback.print_tb(error.__traceback__)


def _exactly(batch: Batch) -> dict[Partition, int]:
    """Where the records themselves begin; there may be nothing between that and the start of the batch."""
    return {(r.topic(), r.partition()): r.offset() for r in reversed(batch.records)}
