"""A pipeline's units on their way back: settled, then advanced, then committed; and those that never come back."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Protocol

import structlog

from penstock.act.registry import has_cursor
from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.dead_letter import Stage
from penstock.core.errors import Unavailable
from penstock.core.failpoints import reach
from penstock.core.status import State
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.crashed_events import failure_of
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.pipelines.group import GroupMembership
from penstock.engine.pipelines.partitions import PartitionState
from penstock.engine.pipelines.stats import PipelineStats
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import CommitRefused
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import Counts, FailedEvent, Halt, Partition, PartitionOutcome, UnitOutcome

log = structlog.get_logger("penstock.pipeline")


_NOBODY = 0
"""In the place of a unit: nothing is planned before the commit."""
_SUSPECTS = 10_000
"""Offsets of a range in flight that are named one by one."""


class Owner(Protocol):
    """The flow, as far as its units need it."""

    spec: PipelineSpec
    name: str
    around: EngineContext
    membership: GroupMembership
    settling: DeadLetterWriter
    books: PipelineStats
    lock: threading.RLock

    def say(self, state: State, reason: str | None = None) -> None: ...
    def heed(self, outcome: UnitOutcome) -> None: ...


@dataclass(slots=True)
class Under:
    """A unit under way."""

    lane: str
    partitions: list[Partition]
    careful: bool


@dataclass(slots=True)
class Loss:
    """Units whose worker died."""

    units: set[int]
    suspects: dict[Partition, set[int]] | None
    """L1: what the in-flight log names; None: there is none."""
    explained: bool
    """Some unit of the window was at an event when it died."""
    stage: Stage | None
    """What an event that it died over fails with; None: no event is to blame."""
    reason: str


class Units:
    """Used by the flow's thread, except `open` and `held_by`, which lanes use under the flow's lock."""

    def __init__(self, owner: Owner, client: KafkaClientConfig) -> None:
        self._flow = owner
        self._client = client
        self.under: dict[int, Under] = {}
        self.uncommitted: set[Partition] = set()
        self.unsettled: list[UnitOutcome] = []
        self.trouble = Backoff()
        """Of the store and of commits."""
        self._deaths: dict[Partition, tuple[Stage, str]] = {}
        self._has_cursor = has_cursor(owner.spec)
        kinds = (("filters", owner.spec.filters), ("transform", owner.spec.transform))
        self._steps = [f"{kind}[{place}]" for kind, steps in kinds for place in range(len(steps))]
        """Names of the filters and transforms, in their order."""

    # -- under way -------------------------------------------------------------------------

    def open(self, unit: int, lane: str, parts: list[PartitionState], *, careful: bool) -> None:
        for own in parts:
            own.unit = unit
        self.under[unit] = Under(lane, [own.key for own in parts], careful)

    def held_by(self, lane: str) -> bool:
        return any(under.lane == lane for under in self.under.values())

    def on(self, partitions: list[Partition]) -> set[int]:
        """Units that work on these partitions."""
        with self._flow.lock:
            owned = self._flow.membership.owned
            return {own.unit for tp in partitions if (own := owned.get(tp)) and own.unit in self.under}

    def forget(self, units: set[int]) -> None:
        with self._flow.lock:
            for unit in units:
                self.under.pop(unit, None)

    @property
    def none_open(self) -> bool:
        return not (self.under or self.uncommitted or self.unsettled)

    # -- back ------------------------------------------------------------------------------

    def take(self, outcome: UnitOutcome) -> bool:
        """True when the unit's end has been taken in full; False when its failures are not durable yet."""
        flow = self._flow
        flow.books.add(outcome)
        self._count(outcome)
        if outcome.counts.acted:
            reach("after-act")
        if outcome.failures and not self._settle(outcome.failures):
            self.unsettled.append(outcome)
            return False
        self.advance(outcome)
        return True

    def _count(self, outcome: UnitOutcome) -> None:
        c, metrics, name = outcome.counts, self._flow.around.metrics, self._flow.name
        filtered = c.filtered - c.unrouted
        metrics.add_events(name, read=c.read, acted=c.acted, filtered=filtered, unrouted=c.unrouted, failed=c.failed)
        metrics.add_times(name, outcome.times, outcome.busy)
        for step, done in zip(self._steps, outcome.steps, strict=False):
            passed = done.processed - done.filtered - done.failed
            metrics.add_step(name, step, passed=passed, dropped=done.filtered, failed=done.failed)
        metrics.add_early_filtered(name, c.early)
        metrics.add_retries(name, c.retried)
        if outcome.failures:
            stages = [failed.failure.stage for failed in outcome.failures]
            metrics.add_failures(name, {stage: stages.count(stage) for stage in set(stages)})
        if outcome.latencies.total:
            metrics.observe_latencies(name, outcome.latencies)

    def _settle(self, failures: list[FailedEvent]) -> bool:
        """I1: failures are durable before the offsets beyond them are committed."""
        flow = self._flow
        try:
            flow.settling.settle(failures, flow.membership.topic_ids)
        except Unavailable as error:
            flow.around.metrics.store_errors.labels("settle").inc()
            self.trouble.fail()
            flow.say("waiting", f"dead letters cannot be stored: {error}")
            return False
        self._tell_of(failures)
        reach("after-settle")
        return True

    def _tell_of(self, failures: list[FailedEvent]) -> None:
        """One line for all of a unit's, with the place of the first: where to look, and nothing of what is in it."""
        record, failure = failures[0].record, failures[0].failure
        where = {"topic": record.topic(), "partition": record.partition(), "offset": record.offset()}
        what = {"stage": failure.stage, "error_code": failure.error_code, "events": len(failures)}
        log.info("dead letters", pipeline=self._flow.name, **where, **what)

    def settle_waiting(self) -> None:
        """Try again what could not be made durable."""
        if self.trouble.waiting:
            return
        held, self.unsettled = self.unsettled, []
        for outcome in held:
            if self._settle(outcome.failures):
                self.trouble.succeed()
                self.advance(outcome)
            else:
                self.unsettled.append(outcome)
        for partition in list(self._deaths):
            self._bury(partition)

    def advance(self, outcome: UnitOutcome) -> None:
        """The unit's failures are durable: its partitions move on."""
        flow = self._flow
        with flow.lock:
            self.under.pop(outcome.unit, None)
            for part in outcome.partitions:
                own = flow.membership.owned.get(part.key)
                if own is not None and own.epoch == part.epoch:
                    before = own.progress
                    own.advance(part)
                    if own.killer is not None:
                        self._deaths[own.key] = ("timeout", "a step before the action did not return")
                    self._moved(own, before)
                    if part.out_of_range or part.gone or own.doubtful:
                        flow.membership.doubt(part.key)
        if any(part.suspect_until is not None for part in outcome.partitions):
            flow.around.dispatcher.quarantine(flow)  # type: ignore[arg-type]  # the flow itself
        # Before the commit, which lets lanes plan the next unit.
        flow.heed(outcome)
        self.commit()
        flow.around.dispatcher.ready(flow)  # type: ignore[arg-type]  # the flow itself

    def _moved(self, own: PartitionState, before: tuple[object, ...]) -> None:
        if self._flow.membership.commits and own.progress != before:
            self.uncommitted.add(own.key)
        else:
            own.unit = None

    def commit(self) -> None:
        flow = self._flow
        with flow.lock:
            waiting = [own for tp in self.uncommitted if (own := flow.membership.owned.get(tp))]
            self.uncommitted = {own.key for own in waiting}
        if self.trouble.waiting:
            return
        if not waiting:
            if self.trouble.failures and not (self.unsettled or self._deaths):
                # What it was about is gone, with the partitions that were taken away.
                self.trouble.succeed()
            return
        began = time.monotonic()
        try:
            flow.membership.commit(waiting)
        except CommitRefused as error:
            flow.books.commits_refused += 1
            flow.around.metrics.commit_failures.labels(flow.name).inc()
            if not error.lost:
                self.trouble.fail()
                flow.say("waiting", str(error))
            return
        flow.around.metrics.commit_seconds.labels(flow.name).observe(time.monotonic() - began)
        if not self.unsettled:
            self.trouble.succeed()
        with flow.lock:
            for own in waiting:
                own.unit = None
                self.uncommitted.discard(own.key)
        flow.around.dispatcher.ready(flow)  # type: ignore[arg-type]  # the flow itself

    # -- lost ------------------------------------------------------------------------------

    def suspects(self, units: set[int], named: dict[int, list[InFlight]] | None) -> dict[Partition, set[int]] | None:
        """Offsets that an in-flight log names in the partitions of these units."""
        if named is None:
            return None
        found: dict[Partition, set[int]] = {}
        for unit in units:
            for each in named.get(unit, ()):
                end = min(each.end, each.first + _SUSPECTS)
                found.setdefault(self.under[unit].partitions[each.index], set()).update(range(each.first, end))
        return found

    def lose(self, loss: Loss) -> bool:
        """The worker died: L1: what it had not returned is repeated, what it was working on is suspect.

        True when the pipeline was alone with it and nobody knows over which event it died.
        """
        flow, baffled = self._flow, False
        with flow.lock:
            gone = {unit: self.under.pop(unit) for unit in loss.units if unit in self.under}
            if not flow.membership.has_log:
                # Its source delivers again whatever was not acknowledged, and the worker keeps count of deaths.
                flow.membership.begin_anew()
                return True
            for own in flow.membership.owned.values():
                under = gone.get(own.unit or 0)
                if under is None:
                    continue
                before = own.progress
                suspects = (loss.suspects or {}).get(own.key, set())
                if loss.stage is not None:
                    baffled = baffled or (under.careful and loss.suspects is not None and not suspects)
                    if suspects or loss.suspects is None or not loss.explained:
                        own.careful = own.careful and under.careful
                        own.suspect(suspects, noted=loss.suspects is not None)
                    if own.killer is not None:
                        self._deaths[own.key] = (loss.stage, loss.reason)
                self._moved(own, before)
            careful = any(own.careful for own in flow.membership.owned.values())
        if careful:
            flow.around.dispatcher.quarantine(flow)  # type: ignore[arg-type]  # the flow itself
        self.commit()
        return baffled

    def _bury(self, partition: Partition) -> None:
        """Make a dead letter of the event that killed its worker, alone."""
        flow = self._flow
        stage, reason = self._deaths[partition]
        own = flow.membership.owned.get(partition)
        if own is None or own.killer is None:
            del self._deaths[partition]
            return
        try:
            failed = None
            if not self._took_effect(own, own.killer):
                failed = failure_of(self._client, flow.spec.group, partition, own.killer, stage=stage, reason=reason)
        except Unavailable as error:
            self.trouble.fail()
            flow.say("waiting", str(error))
            return
        if failed is not None and not self._settle([failed]):
            return
        if failed is not None and not self._pass_over(own, failed.record.offset()):
            return
        where = {"topic": own.topic, "partition": own.partition, "offset": own.killer}
        log.error("an event killed its process", pipeline=flow.name, **where, stage=stage)
        del self._deaths[partition]
        self._after_burial(own, failed)

    def _took_effect(self, own: PartitionState, offset: int) -> bool:
        """I5: whether a table has the event although its worker died of it."""
        if not self._has_cursor:
            return False
        from penstock.engine.pipelines.crashed_cursors import was_written  # noqa: PLC0415 - only tables need a database's library

        return was_written(self._flow.spec, own, offset)

    def _pass_over(self, own: PartitionState, offset: int) -> bool:
        """Let a table's cursor go on behind the dead letter; False when the database is away."""
        if not self._has_cursor or self._flow.spec.options.failure_mode == "THROW":
            return True
        from penstock.engine.pipelines.crashed_cursors import pass_over  # noqa: PLC0415 - as above

        try:
            pass_over(self._flow.spec, own, offset)
        except Unavailable as error:
            self.trouble.fail()
            self._flow.say("waiting", str(error))
            return False
        return True

    def _after_burial(self, own: PartitionState, failed: FailedEvent | None) -> None:
        flow = self._flow
        throw = failed is not None and flow.spec.options.failure_mode == "THROW"
        with flow.lock:
            before, offset = own.progress, failed.record.offset() if failed else own.killer
            own.killer, own.few, own.unit = None, None, _NOBODY
            if offset is not None and not throw:
                own.finish(offset)
            self._moved(own, before)
        if failed is not None:
            part = PartitionOutcome(own.topic, own.partition, own.epoch, own.next_offset, own.pending)
            text = failed.failure.error
            halt = Halt("throw", failed.failure.error_code, text) if throw else None
            outcome = UnitOutcome(0, flow.name, 0, "done", [part], Counts(failed=1), failures=[failed], halt=halt)
            flow.books.add(outcome)
            self._count(outcome)
            flow.heed(outcome)
            self.commit()
        flow.around.dispatcher.ready(flow)  # type: ignore[arg-type]  # the flow itself
