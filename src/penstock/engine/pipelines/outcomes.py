"""The way of a unit's outcome to its commit: account, settle, advance, commit; then observe. And what happens to units
whose worker died."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from penstock.act.registry import has_cursor
from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.dead_letter import Stage
from penstock.core.errors import Unavailable
from penstock.core.failpoints import reach
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.crashed_events import CrashedEvents
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.pipelines.group import Membership, new_epoch
from penstock.engine.pipelines.partitions import PartitionState, PartitionTable, Poison
from penstock.engine.pipelines.planner import InFlightUnit, UnitTable
from penstock.engine.pipelines.stats import OutcomeObserver
from penstock.engine.pipelines.status import StatusReporter
from penstock.kafka.group_consumer import CommitRefused
from penstock.pipeline.accounting import check_account
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import (
    Counts,
    FailedEvent,
    Halt,
    Partition,
    PartitionOutcome,
    UnitOutcome,
)

log = structlog.get_logger("penstock.pipeline")

Parts = list[tuple[PartitionState, PartitionOutcome]]


@dataclass(slots=True)
class WorkerLoss:
    """Units whose worker died before it returned them."""

    units: set[int]
    suspects: Mapping[int, Sequence[InFlight]] | None
    """What the in-flight log says, by unit, for all units of the window; None: there is no log."""
    stage: Stage | None
    """What an event that killed it fails with; None: no event is to blame."""
    reason: str


@dataclass(slots=True, frozen=True)
class Reactions:
    """What the runner does when the handler is done with something."""

    apply_halt: Callable[[UnitOutcome], None]
    ready: Callable[[], None]
    """The partitions may be planned again."""
    isolate: Callable[[], None]
    """Some partition has suspects that have to run alone."""
    renew: Callable[[], None]
    """What workers hold of the pipeline is discarded."""


class OutcomeHandler:
    """Used by the runner's thread only."""

    def __init__(
        self,
        spec: PipelineSpec,
        context: EngineContext,
        *,
        partitions: PartitionTable,
        units: UnitTable,
        membership: Membership,
        writer: DeadLetterWriter,
        crashed: CrashedEvents,
        status: StatusReporter,
        observer: OutcomeObserver,
        reactions: Reactions,
    ) -> None:
        self._spec, self._context, self._partitions, self._units = spec, context, partitions, units
        self._membership, self._writer, self._crashed = membership, writer, crashed
        self._status, self._observer, self._react = status, observer, reactions
        self._has_cursor = has_cursor(spec)
        self._held: dict[int, UnitOutcome] = {}
        """L7: at most one per unit in flight. Outcomes whose failures cannot be settled yet."""
        self.trouble = Backoff(clock=context.clock)
        """Of the store and of commits."""
        self.rejections = Backoff(clock=context.clock)
        """Of outcomes that do not add up."""

    # -- returned --------------------------------------------------------------------------

    def accept(self, outcome: UnitOutcome) -> bool:
        """From a unit's outcome to its commit:

        1. account: what is about a former epoch, topic id or revision is dropped, what does not add up is rejected;
        2. settle: failures become durable dead letters;
        3. advance: partitions take their new positions;
        4. halt: what the unit's end means for the pipeline, before the commit allows lanes to plan the next unit;
        5. commit: the group learns the positions;
        6. observe: metrics, taps, logs.

        True when the outcome was accepted; False when it was dropped, rejected, or is held until the store is back.
        """
        unit = self._units.get(outcome.unit)
        if unit is None or outcome.status != "done" or outcome.revision != unit.revision:
            return False  # L4: a late or second return
        parts = self._current(unit, outcome)
        if (problem := self._account(unit, outcome, parts)) is not None:
            self._reject(unit, outcome, problem)
            return False
        if outcome.counts.acted:
            reach("after-act")
        if not self._settle(unit, outcome, parts):
            self._held[outcome.unit] = outcome
            return False
        self._held.pop(outcome.unit, None)
        self._advance(parts)
        try:
            if parts or not unit.assignments:
                self._react.apply_halt(outcome)
        finally:
            # Only now: a lane must not plan an event that stops the pipeline once more before the pipeline stops.
            self._units.close(unit.unit)
        self.commit()
        self._react.ready()
        self._observer.observe(outcome)
        return True

    def _current(self, unit: InFlightUnit, outcome: UnitOutcome) -> Parts:
        """The partitions of the outcome that are still owned as they were when the unit was planned (L4)."""
        found: Parts = []
        for part in outcome.partitions:
            given = unit.assignments.get(part.key)
            if given is None or given.epoch != part.epoch:
                continue
            state = self._partitions.current(part.key, given.epoch, given.topic_id)
            if state is not None and state.unit == unit.unit:
                found.append((state, part))
        return found

    def _account(self, unit: InFlightUnit, outcome: UnitOutcome, parts: Parts) -> str | None:
        """L2: why the outcome cannot be used, if it cannot."""
        missing = set(unit.assignments) - {part.key for part in outcome.partitions}
        if missing and self._membership.has_log:
            return f"the outcome says nothing about {', '.join(f'{topic}/{p}' for topic, p in sorted(missing)[:5])}"
        if not self._membership.has_log:
            return None  # an external source numbers its deliveries itself; the worker accounts for them
        failed: dict[Partition, list[int]] = {}
        for failure in outcome.failures:
            record = failure.record
            failed.setdefault((record.topic(), record.partition()), []).append(record.offset())
        throws = outcome.halt is not None and outcome.halt.kind == "throw"
        for _, part in parts:
            given = unit.assignments[part.key]
            problem = check_account(given, part, failed.get(part.key, ()), has_cursor=self._has_cursor, throws=throws)
            if problem is not None:
                return f"{part.topic}/{part.partition}: {problem}"
        return None

    def _reject(self, unit: InFlightUnit, outcome: UnitOutcome, problem: str) -> None:
        """The range is repeated by fresh workers; never a skip."""
        log.error("an outcome does not add up; its range is repeated", pipeline=self._spec.name, problem=problem)
        self._held.pop(outcome.unit, None)
        self._units.close(unit.unit)
        with self._partitions.lock:
            for tp, given in unit.assignments.items():
                if (state := self._partitions.current(tp, given.epoch, given.topic_id)) is not None:
                    # What a worker keeps for the next unit of this epoch must not look as if it had been accepted.
                    state.epoch = new_epoch()
        self.rejections.fail()
        self._status.report("waiting", f"an outcome was rejected: {problem}")
        self._react.renew()
        self._react.ready()

    def _settle(self, unit: InFlightUnit, outcome: UnitOutcome, parts: Parts) -> bool:
        """I1: failures are durable before the offsets beyond them are committed. Those of partitions that are no longer
        owned are left to their new owner."""
        owned = {part.key for _, part in parts}
        failures = [f for f in outcome.failures if (f.record.topic(), f.record.partition()) in owned]
        return not failures or self._persist(failures, {tp: given.topic_id for tp, given in unit.assignments.items()})

    def _persist(self, failures: Sequence[FailedEvent], topic_ids: Mapping[Partition, str]) -> bool:
        reach("before-settle")
        try:
            # I3: the id of the topic that the records were read from, whatever exists under its name now.
            self._writer.settle(failures, topic_ids.__getitem__)
        except Unavailable as error:
            self._context.count(lambda metrics: metrics.store_errors.labels("settle").inc())
            self.trouble.fail()
            self._status.report("waiting", f"dead letters cannot be stored: {error}")
            return False
        reach("after-settle")
        return True

    def _advance(self, parts: Parts) -> None:
        with self._partitions.lock:
            for state, part in parts:
                state.advance(part)
        for state, part in parts:
            if part.cursor_gap is not None:
                self._note_gap(state, part.cursor_gap)
        if any(state.isolation is not None for state, _ in parts):
            self._react.isolate()
        self.rejections.succeed()

    def _note_gap(self, state: PartitionState, gap: tuple[int, int]) -> None:
        text = f"{state.topic}/{state.partition}: the target's cursor {gap[0]} lies below the log's start {gap[1]}"
        log.warning(text, pipeline=self._spec.name)
        self._context.note(self._spec.name, "gap", text, gap)

    def commit(self) -> None:
        """Commit every partition that has moved. A commit that is refused is tried again with back-off; one that is
        refused because the membership is lost is not: the partitions are someone else's."""
        if self.trouble.waiting:
            return
        dirty = self._partitions.dirty()
        if not dirty:
            if self.trouble.failures and not (self._held or self._poisoned()):
                self.trouble.succeed()
            return
        began = self._context.clock.monotonic()
        try:
            self._membership.commit(dirty)
        except CommitRefused as error:
            self._observer.commit_refused()
            if not error.lost:
                self.trouble.fail()
                self._status.report("waiting", str(error))
            return
        if not self._held:
            self.trouble.succeed()
        self._observer.committed(self._context.clock.monotonic() - began)
        self._react.ready()

    def retry_held(self) -> None:
        """Settle again what the store could not take, and make dead letters of poison events."""
        if self.trouble.waiting:
            return
        for outcome in list(self._held.values()):
            if not self.accept(outcome) and outcome.unit in self._held:
                return  # the store is still unavailable
        for state in self._poisoned():
            self._settle_poison(state)

    @property
    def held_units(self) -> set[int]:
        """Units that have returned and wait for the store: no worker holds them."""
        return set(self._held)

    def forget(self, units: set[int]) -> None:
        """These units count no longer; what they return later is dropped."""
        for unit in units:
            self._held.pop(unit, None)
            self._units.close(unit)

    @property
    def none_open(self) -> bool:
        """Nothing is in flight, held, or uncommitted."""
        return not (self._units or self._held or self._partitions.dirty())

    # -- lost ------------------------------------------------------------------------------

    def lose(self, loss: WorkerLoss) -> bool:
        """A worker died. L1: what it did is unknown; everything that it had not returned is repeated. What it was
        working on is suspected and runs alone.

        True when the pipeline was alone in the worker and no event was being worked on.
        """
        baffled = False
        explained = any((loss.suspects or {}).values())
        gone = [unit for each in loss.units - set(self._held) if (unit := self._units.close(each)) is not None]
        if gone and not self._membership.has_log:
            # The source delivers again whatever was not acknowledged, and its worker counts deaths per event.
            self._membership.start_over()
            return True
        with self._partitions.lock:
            for unit in gone:
                self._forget_deferred(unit)
                if loss.stage is None:
                    continue
                named = None if loss.suspects is None else loss.suspects.get(unit.unit, ())
                baffled = baffled or (unit.isolated and named is not None and not named)
                self._suspect(unit, named, loss.stage, loss.reason, explained=explained)
            isolated = any(state.isolation is not None for state in self._partitions)
        if isolated:
            self._react.isolate()
        return baffled

    def _forget_deferred(self, unit: InFlightUnit) -> None:
        """The acknowledgements that the worker waited for do not come any more."""
        for tp, given in unit.assignments.items():
            if (state := self._partitions.current(tp, given.epoch, given.topic_id)) is not None:
                state.deferred = 0

    def _suspect(
        self, unit: InFlightUnit, named: Sequence[InFlight] | None, stage: Stage, reason: str, *, explained: bool
    ) -> None:
        for index, tp in enumerate(unit.order):
            given = unit.assignments[tp]
            state = self._partitions.current(tp, given.epoch, given.topic_id)
            if state is None:
                continue
            ranges = None if named is None else [range(each.first, each.end) for each in named if each.index == index]
            # Where another event is known to have been worked on, partitions without one are not suspected.
            if ranges or ranges is None or not explained:
                state.suspect(ranges, isolated=unit.isolated, stage=stage, reason=reason)

    def _poisoned(self) -> list[PartitionState]:
        with self._partitions.lock:
            return [state for state in self._partitions if state.poison is not None]

    def _settle_poison(self, state: PartitionState) -> None:
        """Make a dead letter of the event that killed its worker twice, then count it as finished (I9)."""
        poison = state.poison
        if poison is None:
            return
        throws = self._spec.options.failure_mode == "THROW"
        try:
            cursor = self._crashed.cursor(state)
            failed = self._poison_failure(state, poison, cursor)
            if self._context.cluster.topic_ids([state.topic]).get(state.topic) != state.topic_id:
                # L4: asked after the read: what was read under this name may be a record of another topic.
                state.poison, state.relocate = None, True
                return
            if failed is not None and failed.record.offset() < poison.offset:
                # I5: events before it are not in the target yet. They come first, one at a time.
                state.reach_poison_first(poison.offset)
                self._react.ready()
                return
            if failed is not None:
                if not self._persist([failed], {state.key: state.topic_id}):
                    return
                if not throws:
                    self._crashed.pass_over(state, failed.record.offset(), cursor)
        except Unavailable as error:
            self.trouble.fail()
            self._status.report("waiting", str(error))
            return
        self._finish_poison(state, poison, failed, cursor, throws=throws and failed is not None)

    def _poison_failure(self, state: PartitionState, poison: Poison, cursor: int | None) -> FailedEvent | None:
        """None: it took effect although its worker died of it, or it is no longer in the log."""
        if cursor is not None and cursor > poison.offset:
            return None
        first = poison.offset if cursor is None else cursor
        failed = self._crashed.failure(state, first, stage=poison.stage, reason=poison.reason)
        if failed is not None and poison.exact and failed.record.offset() > poison.offset:
            return None  # I6: compacted away; the event behind it has done nothing
        return failed

    def _finish_poison(
        self, state: PartitionState, poison: Poison, failed: FailedEvent | None, cursor: int | None, *, throws: bool
    ) -> None:
        where = {"topic": state.topic, "partition": state.partition, "offset": poison.offset}
        log.error("an event killed its process", pipeline=self._spec.name, **where, stage=poison.stage)
        offset = failed.record.offset() if failed is not None else poison.offset
        with self._partitions.lock:
            if throws or cursor is not None:
                # L1: behind a cursor nothing moves here. The next unit reads the cursor, and reports with it what the
                # dead worker had noted as failed in the target before it died.
                state.poison = None
            else:
                state.finish_poison(offset)
            part = PartitionOutcome(*state.key, state.epoch, state.next_offset, state.pending)
        outcome = UnitOutcome(0, self._spec.name, 0, "done", [part])
        if failed is not None:
            outcome.counts, outcome.failures = Counts(failed=1), [failed]
            if throws:
                outcome.halt = Halt("throw", failed.failure.error_code, failed.failure.error)
            self._react.apply_halt(outcome)
        self.commit()
        self._react.ready()
        self._observer.observe(outcome)
