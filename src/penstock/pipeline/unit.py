"""One unit: read, prepare, act until the deadline; then report per partition how far it came."""

from __future__ import annotations

import contextlib
import resource
import threading
import traceback
from collections.abc import Callable

from penstock.core.clock import SYSTEM, Clock
from penstock.core.commit_metadata import fits
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Transient
from penstock.core.event import RecordLike
from penstock.kafka.partition_reader import Batch, Runs
from penstock.pipeline.accounting import by_partition, partition_runs
from penstock.pipeline.bounded_reader import bounded
from penstock.pipeline.built_pipeline import BuiltPipeline
from penstock.pipeline.chain import Blocked, Prepared
from penstock.pipeline.crash_note import note_event_begun
from penstock.pipeline.executors.executor import ActionExecutor, partition_of
from penstock.pipeline.failures import error_text
from penstock.pipeline.in_flight_log import InFlightSlots
from penstock.pipeline.items import FailedItem, Item
from penstock.pipeline.messages import (
    Account,
    Assignment,
    Halt,
    Partition,
    PartitionOutcome,
    Retry,
    UnitOutcome,
    UnitRequest,
)
from penstock.pipeline.retry import Coordinates
from penstock.pipeline.samples import Sampler, open_places
from penstock.pipeline.unit_result import FailureLimits, UnitResult

_BATCH = 2_000
"""Records per read: large enough that its fixed costs vanish, small enough that the deadline is kept."""
_CREATE_WITHIN = 120.0
"""Seconds that making a pipeline's plug-ins may take: an action may load a model, but not hang."""
_PENDING_AT_MOST = 10_000
"""L7: events of a partition that may be pending; from there on it is read no further."""
_AHEAD = 2_000
"""So many events of a partition are read while its first one waits for a retry within the unit."""
_FEW = 100
"""So many pending offsets always fit into a commit."""


class _AbandonedError(BaseException):
    """Another thread has given this one up, and made its outcome."""


class UnknownBlueprint(LookupError):
    """The process does not have the blueprint that the driver thinks it has."""


class UnitRun(threading.Thread):
    """Runs in a thread of its own, so that units wait for Kafka side by side and a slow one can be left behind.

    `over` is set when the outcome is complete, whatever happens. `stop`, `overdue` and `abandon` are called from
    another thread.
    """

    def __init__(
        self,
        request: UnitRequest,
        build: Callable[[UnitRequest], BuiltPipeline],
        deadline: Deadline,
        open_slots: Callable[[UnitRequest, int], InFlightSlots] | None = None,
        *,
        limits: FailureLimits = FailureLimits(),  # noqa: B008 - immutable
        clock: Clock = SYSTEM,
    ) -> None:
        super().__init__(name=f"unit-{request.pipeline}", daemon=True)
        self.request = request
        self.deadline = deadline
        self.slots = InFlightSlots.none()
        self._open_slots = open_slots
        self.outcome = UnitOutcome(request.unit, request.pipeline, request.revision, "done")
        self.over = threading.Event()
        self.hangs = False
        """True: its thread was given up."""
        self._build = build
        self._limits, self._clock = limits, clock
        self._pipeline: BuiltPipeline | None = None
        self._began = clock.monotonic()
        self._cpu = 0.0
        self._idle = 0.0
        self._unfed: list[Item] = []
        """Prepared items that may not begin in this unit."""
        self._blocked: Blocked = {}
        self._preparing: tuple[list[RecordLike], float] | None = None
        self._feeding: tuple[Prepared, Runs] | None = None
        """The batch that is being fed, which no account has yet."""
        self._stopping = False
        self._abandoned = False
        self._claim = threading.Lock()
        """Held by the thread that decides about the outcome: the unit's own, or one that gives it up."""

    def run(self) -> None:
        try:
            pipeline = self._pipeline = self._build(self.request)
        except BaseException as error:  # noqa: BLE001 - a plug-in that cannot be created is the pipeline's trouble, whatever it raises
            self._end_with(_build_halt(error))
            _show_place(error)
            return
        self._began, self._cpu = self._clock.monotonic(), _cpu_seconds()
        try:
            unfinished = self._work(pipeline)
            with self._claim:
                if not self.over.is_set():
                    self._report(pipeline, unfinished)
                    self.over.set()
        except _AbandonedError:
            return
        except BaseException as error:  # noqa: BLE001 - a unit must always have an outcome, or its partitions would never be planned again
            text = error_text(error, pipeline.scrub)
            code = getattr(error, "code", None)
            kind = type(error).__name__
            halt = Halt("outage" if isinstance(error, Transient) else "error", str(code or kind), f"{kind}: {text}")
            with self._claim:
                self._end_with(halt)
            _show_place(error)

    def stop(self) -> None:
        """F16: begin no further act; the unit returns what it has."""
        self._stopping = True
        if self._pipeline is not None:
            self._pipeline.executor.stop()

    def _end_with(self, halt: Halt) -> None:
        """Nothing counts as done: the same offsets are planned again."""
        if not self.over.is_set():
            self.outcome.halt = halt
            self.outcome.failures = []
            self.outcome.partitions = [
                PartitionOutcome(
                    *a.key,
                    a.epoch,
                    a.next_offset,
                    a.pending,
                    a.retries,
                    a.topic_id,
                    Account(a.next_offset, len(a.pending)),
                )
                for a in self.request.assignments
            ]
            self.over.set()

    # -- work ------------------------------------------------------------------------------

    def _work(self, pipeline: BuiltPipeline) -> list[Item]:
        """Returns what is not finished."""
        executor, request, chain = pipeline.executor, self.request, pipeline.chain
        pipeline.rate_limiter.rate = request.rate
        chain.tap = None
        if request.tap:
            chain.tap = Sampler(request.tap, pipeline.scrub, transforms=chain.has_transforms, clock=self._clock)
        if request.bounds is not None:
            pipeline.reader = bounded(pipeline.reader, request.bounds, self._clock)
        leftovers = pipeline.place(request.assignments)
        result = UnitResult(
            pipeline.scrub,
            throw=pipeline.spec.options.failure_mode == "THROW",
            breaker=None if request.careful else pipeline.breaker,
            again_below=pipeline.again_below,
            limits=self._limits,
            clock=self._clock,
        )
        if self._open_slots is not None:
            self.slots = self._open_slots(request, executor.concurrency)
        executor.begin(result, self.deadline, self.slots)
        if self._stopping:
            executor.stop()
        if request.last:
            self._unfed = leftovers
            pipeline.close_action()
            return executor.finish()
        if request.collect:
            self._unfed = leftovers
            executor.wait_acknowledged(set(pipeline.accounts))
            return executor.finish()
        executor.end_deferrals(set(pipeline.accounts))
        try:
            self._resume_leftovers(pipeline, leftovers)
            executor.wake()
            self._read_and_act(pipeline, result, max(1, request.max_records - len(leftovers)))
        finally:
            unfinished = executor.finish()
        return unfinished

    def _read_and_act(self, pipeline: BuiltPipeline, result: UnitResult, room: int) -> None:
        """Until the deadline, or a limit; what waits for a retry leaves `room` for other partitions."""
        executor, reader, request = pipeline.executor, pipeline.reader, self.request
        owned = set(pipeline.accounts)
        share = max(1, request.max_records // (2 * len(owned)))
        counts = self.outcome.counts
        while not (self.deadline.expired or result.full or self._unfed or self._stopping) and counts.read < room:
            executor.wake()
            due = executor.next_due
            waits_beyond = due is None or due >= self.deadline.at
            if reader.exhausted and waits_beyond:
                return
            held = self._held(pipeline, share)
            reader.hold(held)
            if held >= owned and waits_beyond and not executor.busy:
                # Everything waits for a retry, or an outage, that ends after this unit.
                return
            if request.careful and not executor.busy and all(map(reader.at_end, owned)):
                return
            if request.stop_at is not None and all(reader.position(tp) >= request.stop_at for tp in owned):
                return
            limit = 1 if request.careful else min(_BATCH, share, room - counts.read)
            batch = self._read(pipeline, limit, due)
            if batch is not None:
                self._take(pipeline, batch)

    def _resume_leftovers(self, pipeline: BuiltPipeline, items: list[Item]) -> None:
        """What the last unit left comes first, within the same limits as what is read."""
        if items:
            note_event_begun()
        most = self.request.max_records
        step = 1 if self.request.careful else max(1, min(most, len(items)))
        for at in range(0, min(most, len(items)), step):
            self._feed(pipeline, items[at : at + step])
            if self.request.careful:
                pipeline.executor.wait_idle()
            if self._unfed:
                self._unfed += items[at + step :]
                return
        self._unfed = items[most:]
        if not self._unfed:
            reader = pipeline.reader
            pipeline.executor.mark_consumed({tp: reader.position(tp) for tp in pipeline.accounts})

    def _held(self, pipeline: BuiltPipeline, share: int) -> set[Partition]:
        """Partitions to read no further from: their order forbids it, what is pending could not be remembered, so many
        of their events wait that there would be no room for other partitions', or an outage concerns their next
        event."""
        executor = pipeline.executor
        waiting = executor.waiting
        held = set(self._blocked) | {tp for tp, offsets in waiting.items() if len(offsets) >= share}
        if executor.tail_only:
            # A short wait is not worth a stop of the fetching, which takes a while to begin again.
            end = self.deadline.at
            held |= {
                tp
                for tp, offsets in waiting.items()
                if len(offsets) >= _AHEAD or _due(executor, (*tp, min(offsets))) >= end
            }
        elif waiting:
            held |= {tp for tp, offsets in waiting.items() if not self._fit(pipeline, tp, offsets)}
        if len(executor.deferred) > _FEW:
            # F20: deferred events are pending, too.
            deferred: dict[Partition, list[int]] = {}
            for place in list(executor.deferred):
                deferred.setdefault(place[:2], []).append(place[2])
            mine = pipeline.accounts.keys() & deferred.keys()
            held |= {tp for tp in mine if not self._fit(pipeline, tp, [*deferred[tp], *waiting.get(tp, ())])}
        return held

    def _fit(self, pipeline: BuiltPipeline, partition: Partition, pending: list[int]) -> bool:
        """Whether so many pending offsets may be, and can be remembered in a commit."""
        if len(pending) <= _FEW:
            return True
        position = pipeline.reader.position(partition)
        end = max(position, pipeline.accounts[partition].began_at)
        return len(pending) < _PENDING_AT_MOST and fits(min(pending), end, sorted(set(pending)))

    def _read(self, pipeline: BuiltPipeline, limit: int, due: float | None) -> Batch | None:
        began = self._clock.monotonic()
        timeout = self.deadline.remaining
        if due is not None:
            timeout = max(0.0, min(timeout, due - began))
        batch = pipeline.read(limit, timeout)
        self._idle += self._clock.monotonic() - began
        return batch

    def _take(self, pipeline: BuiltPipeline, batch: Batch) -> None:
        """Prepare a batch and act on it, as far as no outage concerns it."""
        executor, chain = pipeline.executor, pipeline.chain
        if self._blocked:
            # They are held; what a reader gives of them all the same is read again by a later unit.
            batch.keep(lambda record: (record.topic(), record.partition()) not in self._blocked)
        prepared = self._prepare(pipeline, batch)
        ends = batch.ends
        if prepared.blocked:
            ends = self._note_blocked(pipeline, prepared.blocked, ends)
        counts = self.outcome.counts
        counts.read += len(prepared.records)
        counts.filtered += len(prepared.records) - len(prepared.items)
        chain.count_dropped(prepared)
        items = prepared.items
        runs = batch.runs if len(items) == len(batch.records) else ()
        runs = runs or partition_runs(items)
        self._feeding = (prepared, runs)
        self._feed(pipeline, items, runs)
        if not self._unfed:
            executor.mark_consumed(ends)
        if self.request.careful:
            executor.wait_idle()
        finished = not (executor.tail_only and (self._unfed or executor.unfinished))
        with self._claim:
            self._check_abandoned()
            self._feeding = None
            self._account(pipeline, prepared, runs, finished=finished)

    def _prepare(self, pipeline: BuiltPipeline, batch: Batch) -> Prepared:
        records = batch.records
        # The first record of each partition itself: there may be nothing between the start of the batch and it.
        firsts = {(r.topic(), r.partition()): r.offset() for r in reversed(records)} if self.request.careful else {}
        ranges = {tp: (firsts.get(tp, start), batch.ends[tp]) for tp, start in batch.starts.items()}
        self.slots.begin_ranges(ranges)
        note_event_begun()
        self._preparing = (records, self._clock.monotonic())
        prepared = pipeline.chain.prepare_batch(records)
        with self._claim:
            self._check_abandoned()
            self._preparing = None
        self.slots.end_ranges()
        return prepared

    def _check_abandoned(self) -> None:
        """The claim is held: from here on another thread cannot give the unit up, or has already done so."""
        if self._abandoned:
            raise _AbandonedError

    def _note_blocked(
        self, pipeline: BuiltPipeline, blocked: Blocked, ends: dict[Partition, int]
    ) -> dict[Partition, int]:
        """I6: an outage concerns no event: from the first record that it blocks, the partition is read again by a later
        unit; what lies before, and other partitions, go on."""
        self._blocked |= blocked
        for partition, (offset, _) in blocked.items():
            pipeline.accounts[partition].blocked_at = offset
        return {tp: min(end, blocked[tp][0]) if tp in blocked else end for tp, end in ends.items()}

    def _account(self, pipeline: BuiltPipeline, prepared: Prepared, runs: Runs, *, finished: bool) -> None:
        """L2: count what was read and dropped, or remember it while something of it is unfinished."""
        accounts = pipeline.accounts
        if len(accounts) == 1:
            [account] = accounts.values()
            account.take(prepared.records, prepared.items, finished=finished)
        else:
            for partition, (mine, kept) in by_partition(prepared.records, prepared.items, runs).items():
                accounts[partition].take(mine, kept, finished=finished)
        if finished:
            for account in accounts.values():
                account.settle()

    def _feed(self, pipeline: BuiltPipeline, items: list[Item], runs: Runs | None = None) -> None:
        """At the pace of the rate limit; what may not begin in this unit is kept."""
        executor, chain = pipeline.executor, pipeline.chain
        if chain.tap is not None:
            chain.observe(chain.tap.handed, items)
        if pipeline.rate_limiter.rate is None:
            if items:
                executor.feed(items, runs)
            return
        at = 0
        while at < len(items) and not (executor.result.full or self._stopping):
            began = self._clock.monotonic()
            allowed = pipeline.rate_limiter.allow(len(items) - at, self.deadline)
            self._idle += self._clock.monotonic() - began
            if allowed == 0:
                break
            executor.feed(items[at : at + allowed])
            at += allowed
        self._unfed = items[at:]

    # -- the end ---------------------------------------------------------------------------

    def _report(
        self,
        pipeline: BuiltPipeline,
        unfinished: list[Item],
        suspects: dict[Partition, int] | None = None,
        hung: Coordinates | None = None,
    ) -> None:
        """Fill in the outcome: first what positions depend on, then what is only shown."""
        executor, outcome = pipeline.executor, self.outcome
        if self._feeding is not None:
            self._account(pipeline, *self._feeding, finished=not executor.tail_only)
        deferred = executor.take_acknowledged(set(pipeline.accounts))
        result = executor.result
        outcome.failures, outcome.halt = list(result.failures), result.halt
        unfinished = [*unfinished, *self._unfed]
        rest: dict[Partition, list[Item]] = {}
        for item in unfinished:
            rest.setdefault(partition_of(item), []).append(item)
        for a in self.request.assignments:
            part = self._partition_outcome(pipeline, a, rest.get(a.key, []), deferred.get(a.key, set()))
            part.suspect_until = suspects.get(a.key) if suspects else None
            part.hung_at = hung[2] if hung and hung[:2] == a.key else None
            outcome.partitions.append(part)
        trouble = pipeline.reader.trouble
        if trouble.error and not outcome.counts.read and outcome.halt is None:
            outcome.halt = Halt("outage", "broker", trouble.error)
        pipeline.leave(outcome.partitions, rest)
        executor.reported(outcome.partitions)
        if pipeline.external is not None:
            pipeline.external.tell(outcome)
        # L3: what is only shown comes last, and cannot take the outcome back.
        with contextlib.suppress(Exception):
            self._describe(pipeline, result, unfinished)

    def _partition_outcome(
        self, pipeline: BuiltPipeline, a: Assignment, items: list[Item], deferred: set[int]
    ) -> PartitionOutcome:
        executor, reader, key = pipeline.executor, pipeline.reader, a.key
        account, result, now = pipeline.accounts[key], executor.result, self._clock.monotonic()
        position = account.position(reader.position(key))
        unbegun = {item.record.offset() for item in items}
        next_offset = max(position, account.began_at)
        if executor.tail_only:
            # Everything behind the first unfinished event is unfinished, too: reading continues there.
            next_offset = min((o for o in unbegun if o >= account.began_at), default=next_offset)
        if (cursor := executor.cursor(key)) is not None:
            next_offset = cursor
        pending = {o for o in account.unread(position) | unbegun | deferred if o < next_offset}
        counted = account.close(next_offset, position)
        counted.acted = result.acted_by.get(key, 0)
        counted.failed = result.failed_by.get(key, 0)
        counted.filtered += result.filtered_by.get(key, 0)
        part = PartitionOutcome(
            *key, a.epoch, next_offset, tuple(sorted(pending)), _retries(executor, key, now), a.topic_id, counted
        )
        part.deferred = len(deferred)
        part.blocked_for = _blocked_for(executor, key, unbegun, now)
        if key in self._blocked:
            offset, error = self._blocked[key]
            waits = [pipeline.blocked_for(key, offset), getattr(error, "remaining", None)]
            if part.blocked_for is None:
                # Retries of other events of the partition come when they are due.
                waits += [retry.wait for retry in part.retries]
            part.blocked_for = max(part.blocked_for or 0.0, min(wait for wait in waits if wait is not None))
            part.blocked_by = error_text(error, pipeline.scrub)
        at_end = account.blocked_at is None and reader.at_end(key)
        part.at_end = at_end and not unbegun
        part.cursor_gap = executor.cursor_gaps.get(key)
        trouble = reader.trouble
        part.out_of_range, part.gone = key in trouble.out_of_range, key in (trouble.gone | executor.recreated)
        self.outcome.more = self.outcome.more or ((bool(unbegun) or not at_end) and part.blocked_for is None)
        return part

    def _describe(self, pipeline: BuiltPipeline, result: UnitResult, unfinished: list[Item]) -> None:
        """Counts and times for metrics, samples for taps."""
        counts, outcome, chain = self.outcome.counts, self.outcome, pipeline.chain
        result.end()
        counts.acted, counts.failed, counts.retried = result.acted, len(result.failures), result.retried
        counts.act_errors = result.act_errors
        counts.filtered += sum(result.filtered_by.values())
        unrouted, counts.early = chain.take_dropped()
        counts.unrouted = min(unrouted, counts.filtered)
        outcome.steps = [counter.take() for counter in chain.counters]
        outcome.times = chain.times.take()
        outcome.latencies = result.latencies
        outcome.busy = self._clock.monotonic() - self._began - self._idle
        if pipeline.executor.overlaps:
            outcome.busy = min(outcome.busy, _cpu_seconds() - self._cpu)
        if chain.tap is not None:
            failed = {_place(each.record): each.failure.error for each in result.failures}
            executor = pipeline.executor
            waiting = open_places(unfinished, list(executor.deferred), list(executor.retries))
            outcome.samples = chain.tap.ended(failed, waiting)

    # -- a thread that does not return -----------------------------------------------------

    @property
    def overdue(self) -> bool:
        """Whether user code has not returned for longer than it may."""
        now, pipeline, preparing = self._clock.monotonic(), self._pipeline, self._preparing
        if self.over.is_set():
            return False
        if pipeline is None:
            return now - self._began > _CREATE_WITHIN
        if preparing is not None:
            return now - preparing[1] > pipeline.executor.timeout and not pipeline.executor.busy
        return pipeline.executor.overdue(now)

    def abandon(self) -> None:
        """Give the thread up, from another one: what it is at has failed, or is tried alone; the rest is unfinished."""
        with self._claim:
            if self.over.is_set():
                return
            pipeline, preparing = self._pipeline, self._preparing
            if pipeline is None:
                self.hangs = True
                self._end_with(Halt("error", "timeout", f"create did not return within {_CREATE_WITHIN:g} s"))
            elif preparing is not None:
                self._abandon_preparing(pipeline, preparing[0])
            elif (found := pipeline.executor.give_up()) is not None:
                self._abandon_acting(pipeline, *found)

    def _abandon_acting(self, pipeline: BuiltPipeline, hanging: list[Item], unfinished: list[Item]) -> None:
        self.hangs = self._abandoned = self._stopping = True
        suspects: dict[Partition, int] = {}
        if len(hanging) > 1:
            suspects = {partition_of(item): item.record.offset() + 1 for item in hanging}
        elif pipeline.executor.fail(hanging[0], "timeout", pipeline.executor.timed_out()) == "failed":
            unfinished = [item for item in unfinished if item is not hanging[0]]
        self._report(pipeline, unfinished, suspects)
        self.over.set()

    def _abandon_preparing(self, pipeline: BuiltPipeline, records: list[RecordLike]) -> None:
        """A step before the action hangs: none of these records was taken."""
        self.hangs = self._abandoned = self._stopping = True
        executor = pipeline.executor
        executor.stop()
        unfinished = executor.finish()
        suspects: dict[Partition, int] = {}
        hung: Coordinates | None = None
        if len(records) > 1:
            suspects = {(r.topic(), r.partition()): r.offset() + 1 for r in records}
        elif executor.has_cursor and not pipeline.replays:
            # F12: the target's cursor passes an event only together with its failure, which the driver has to write.
            hung = _place(records[0])
        else:
            error = executor.timed_out()
            item = FailedItem(records[0], "decode", error)
            if executor.fail(item, "timeout", error) == "failed":
                pipeline.accounts[partition_of(item)].take(records, [item], finished=not executor.tail_only)
                records = []
        for each in reversed(records):
            pipeline.accounts[each.topic(), each.partition()].blocked_at = each.offset()
        self._report(pipeline, unfinished, suspects, hung)
        self.over.set()


def _due(executor: ActionExecutor, place: Coordinates) -> float:
    state = executor.retries.get(place)
    return state.due if state else 0.0


def _retries(executor: ActionExecutor, partition: Partition, now: float) -> tuple[Retry, ...]:
    return tuple(
        Retry(place[2], state.attempts, state.first_failed_at, max(0.0, state.due - now))
        for place, state in executor.retries.items()
        if place[:2] == partition
    )


def _blocked_for(executor: ActionExecutor, partition: Partition, unbegun: set[int], now: float) -> float | None:
    """Where order forbids to go on, the partition waits for its first unfinished event without holding a lane."""
    first = executor.retries.get((*partition, min(unbegun))) if unbegun and executor.tail_only else None
    return max(0.0, first.due - now) if first else None


def _place(record: RecordLike) -> Coordinates:
    return record.topic(), record.partition(), record.offset()


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _build_halt(error: BaseException) -> Halt:
    if isinstance(error, UnknownBlueprint):
        return Halt("unknown", "unknown", str(error))
    if isinstance(error, Transient):
        return Halt("outage", str(getattr(error, "code", "outage")), str(error))
    if isinstance(error, PenstockError) and isinstance(error, Terminal):
        return Halt("build", str(error.code), str(error))
    if isinstance(error, SystemExit):
        return Halt("error", "SystemExit", f"create called sys.exit({error.code})")
    return Halt("error", type(error).__name__, f"{type(error).__name__}: {error}")


def _show_place(error: BaseException) -> None:
    """Where a mistake of our own is, in the log: no letter has it. I8: without its words, which may hold secrets."""
    if not isinstance(error, PenstockError | Transient | SystemExit | UnknownBlueprint):
        traceback.print_tb(error.__traceback__)
