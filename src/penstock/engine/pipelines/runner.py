"""A pipeline on the driver: its group member, its partitions, and what happens between a unit's outcome and the next
unit."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Stage
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal
from penstock.core.status import PartitionStatus, State
from penstock.engine.desired_state import DesiredState
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.pipelines.drain import SHORT, Ending
from penstock.engine.pipelines.external import ExternalMembership
from penstock.engine.pipelines.group import GroupMembership
from penstock.engine.pipelines.outcomes import Loss, Units
from penstock.engine.pipelines.pause_detector import PauseDetector
from penstock.engine.pipelines.stateless import StatelessMembership
from penstock.engine.pipelines.stats import PipelineStats
from penstock.kafka.group_consumer import CommitRefused
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import Blueprint, Partition, UnitOutcome

log = structlog.get_logger("penstock.pipeline")

SOURCE_ENDED = "its source has ended"
BREAKER = "breaker"
"""Who pauses and resumes, where no person does."""


class PipelineRunner(Ending):
    """One thread per pipeline owns its group member; lanes plan units from it under its lock."""

    def __init__(self, spec: PipelineSpec, blueprint: Blueprint, around: EngineContext, *, pinned: bool) -> None:
        super().__init__(spec, blueprint, around, pinned=pinned)
        self.parallelism = spec.options.parallelism or 1
        self.books = PipelineStats()
        self.membership = _kind(spec)(spec, blueprint.client, around, self)
        self.settling = DeadLetterWriter(blueprint, around.store)
        self._mail: queue.SimpleQueue[tuple[UnitOutcome, float] | Loss | None] = queue.SimpleQueue()
        self.units = Units(self, blueprint.client)
        self.pulse = PauseDetector(around.session_timeout / 3)
        self.wanted = around.control.wanted(spec.name)
        self.obeyed: int | None = None
        """Revision of the desired state that is carried out."""
        self._restarts = self.wanted.restarts
        self._defect: str | None = None
        """Why this instance cannot run the pipeline, whatever is wanted."""
        self.finished = False
        """True: its source has ended, and everything of it is settled."""
        self._stopping = False
        self._ended = threading.Event()
        self.started = False
        self._thread = threading.Thread(target=self._run, name=f"flow-{spec.name}", daemon=True)

    # -- what lanes tell -------------------------------------------------------------------

    def deliver(self, outcome: UnitOutcome, seconds: float) -> None:
        self._mail.put((outcome, seconds))

    def lose(
        self, units: set[int], suspects: dict[int, list[InFlight]] | None, *, stage: Stage | None, reason: str
    ) -> None:
        """The worker that held these units is gone; `suspects` is what its in-flight log names, None: there is none."""
        with self.lock:
            mine = units & set(self.units.under)
            named = self.units.suspects(mine, suspects)
        if mine:
            self._mail.put(Loss(mine, named, any((suspects or {}).values()), stage, reason))

    # -- what the instance asks ------------------------------------------------------------

    def start(self) -> None:
        self.around.metrics.begin(self.name, self.spec.group)
        self.around.metrics.set_state(self.name, self.state)
        self.around.dispatcher.add(self)
        self._restarts = self.wanted.restarts
        self.started = True
        self.around.season.enter(self.warmth)
        self._thread.start()

    def stop(self) -> None:
        """Plan nothing more; the thread finishes what is under way and leaves the group."""
        self._stopping = True
        self._mail.put(None)

    def wait_ended(self, timeout: float) -> bool:
        return self._ended.wait(timeout)

    def want(self, wanted: DesiredState) -> None:
        """Take what is wanted of this pipeline; the flow's thread carries it out."""
        if wanted != self.wanted:
            self.wanted = wanted
            self.around.metrics.breaker_open.labels(self.name).set(wanted.state == "paused" and wanted.by == BREAKER)
            self._mail.put(None)

    def limit_rate(self, rate: float | None) -> None:
        """Take another rate limit of the spec; the next unit obeys it."""
        options = self.spec.options.model_copy(update={"rate_limit": rate})
        self.spec = self.spec.model_copy(update={"options": options})

    @property
    def over(self) -> bool:
        """True: it has failed, or its source has ended; nothing more happens unless somebody says so."""
        return self.state == "failed" or self.finished

    @property
    def halted(self) -> bool:
        """True: nothing is read until somebody says so."""
        return (
            self.state == "failed" or self.finished or self.wanted.paused or self.wanted.state in ("stopped", "failed")
        )

    def partitions(self) -> list[PartitionStatus]:
        return self.membership.partitions(self.around.instance)

    def caught_up(self, ends: dict[Partition, int]) -> bool:
        """True when everything below these ends is finished and committed, or nothing will be."""
        if self.halted:
            return True
        with self.lock:
            if not self.membership.has_log:
                owned_now = self.membership.owned.values()
                return self.membership.settled and all(own.at_end and not own.pending for own in owned_now)
            owned = {tp: own.position for tp, own in self.membership.owned.items() if tp not in self.units.uncommitted}
        return self.membership.settled and all(owned.get(tp, -1) >= end for tp, end in ends.items())

    # -- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                if self._stays_away():
                    continue
                try:
                    self._live()
                except PenstockError as error:
                    if isinstance(error, Terminal):
                        self._break(str(error))
                        continue
                    self._wait_out(str(error))
                except Exception as error:
                    log.exception("pipeline restarts", pipeline=self.name)
                    self._wait_out(f"restarting after {type(error).__name__}: {error}")
        finally:
            self.around.doorbell.leave(self.name)
            self.around.dispatcher.remove(self)
            self.around.season.leave(self.warmth)
            self.settling.close()
            if self.state != "failed":
                self.say("stopped")
            self._ended.set()

    def _live(self) -> None:
        """Membership from joining to leaving."""
        self.membership.join()
        self.pulse.begin()
        try:
            while not self.leaves:
                self._tick()
        finally:
            deadline = Deadline.after(self.spec.options.drain_timeout)
            self._finish_units(deadline)
            self._say_goodbye(deadline)
            self.membership.leave()

    def _wait_out(self, reason: str) -> None:
        self.say("waiting", reason)
        end = time.monotonic() + self._joining.fail()
        while time.monotonic() < end and not self.leaves:
            self._read_mail(0.2)

    # -- what is wanted --------------------------------------------------------------------

    @property
    def leaves(self) -> bool:
        """True: finish what is under way and leave the group."""
        here = self._stopping or self._defect is not None or self.finished
        return here or self.wanted.away or self.wanted.restarts != self._restarts

    def _stays_away(self) -> bool:
        """Whether to be out of the group now: it is wanted, or this instance cannot run the pipeline."""
        wanted = self.wanted
        if self.leaves and self.lanes:
            self.around.doorbell.leave(self.name)
            self.around.dispatcher.remove(self)
            self.lanes = ()
            self.warmth.become("cold")
        if wanted.restarts != self._restarts:
            self._restarts, self._defect, self.revision = wanted.restarts, None, self.revision + 1
            self.finished = False
        if wanted.away or self._defect is not None or self.finished:
            self.say(*(wanted.shown() if wanted.away else self._own_end))
            self.obeyed = wanted.revision
            self._read_mail(0.5)
            return True
        if not self.lanes:
            self.around.dispatcher.add(self)
            self.say("starting")
        return False

    @property
    def _own_end(self) -> tuple[State, str | None]:
        return ("stopped", SOURCE_ENDED) if self._defect is None else ("failed", self._defect)

    def _pauses(self) -> bool:
        """Whether to hold the partitions and run nothing; what is under way is finished first."""
        wanted = self.wanted
        if wanted.paused:
            if self.units.none_open:
                self.say(*wanted.shown())
                self.obeyed = wanted.revision
            return True
        if self.state == "paused":
            self.say("running")
            self._rung()
            self.around.dispatcher.ready(self)
        if not self.leaves:
            self.obeyed = wanted.revision
        return False

    def _tick(self) -> None:
        self.pulse.beat()
        if self.warmth.is_cold and not self.units.under and not self.units.uncommitted:
            self._rest()
        else:
            self._read_mail(SHORT)
            self.membership.poll(0.0)
        self.units.settle_waiting()
        self.units.commit()
        if self.pulse.unsure:
            self._ask_the_group()
        if self.membership.resolve():
            self._arrived()
        if self._joining.failures and self.membership.well:
            self._joining.succeed()
        if not self._pauses():
            self._show_membership()
        self._cool_down()

    def _rest(self) -> None:
        """Nothing is under way. A member that has its partitions waits for mail: in `poll` the client wakes up five
        times a second, and hundreds rest. One that has none looks more often: it is what a start waits for."""
        if self.membership.settled and self.membership.owned:
            # Well within what the pulse takes for standing still.
            self._read_mail(min(self.around.season.rest, self.around.session_timeout / 6))
            self.membership.poll(0.0)
        else:
            self.membership.poll(1.0 if self.membership.settled else 0.1)
            self._read_mail(0.0)

    def _ask_the_group(self) -> None:
        """The process stood still: whether its partitions are still its own, a commit tells."""
        with self.lock:
            owned = list(self.membership.owned.values())
        try:
            if self.membership.commits:
                self.membership.commit(owned)
        except CommitRefused as error:
            log.warning("stood still; the group does not know us", pipeline=self.name, reason=str(error))
            return
        self.pulse.begin()
        self.around.dispatcher.ready(self)

    def _read_mail(self, timeout: float) -> None:
        self.pulse.beat()
        try:
            mail = self._mail.get(timeout=timeout) if timeout else self._mail.get_nowait()
            while True:
                if isinstance(mail, Loss):
                    self._take_loss(mail)
                elif mail is not None:
                    self._take(*mail)
                mail = self._mail.get_nowait()
        except queue.Empty:
            return

    # -- outcomes --------------------------------------------------------------------------

    def _take(self, outcome: UnitOutcome, seconds: float) -> None:
        if outcome.status == "detached" or outcome.unit not in self.units.under:
            return
        if outcome.counts.read or outcome.halt:
            self.warmth.touch()
        if outcome.samples:
            self.around.taps.give(self.name, outcome.samples)
        for remark in outcome.remarks:
            log.warning(remark, pipeline=self.name)
        if self.units.take(outcome) and not self.pinned:
            change = self.warmth.after(outcome, seconds, lanes=len(self.lanes))
            if change:
                self._set_temperature(change)

    def heed(self, outcome: UnitOutcome) -> None:
        """What a unit's end means for the pipeline."""
        halt = outcome.halt
        if outcome.ended:
            self.finished = True
        if halt is None:
            if self._outage.failures:
                self._outage.succeed()
            if self.wanted.trial and outcome.counts.acted:
                self.around.control.resume(self.name, by=BREAKER, reason="the trial went well")
        elif halt.kind == "throw":
            self._fail(f"{halt.code}: {halt.reason}", outcome)
        elif halt.kind == "breaker":
            after = self.spec.options.breaker.resume_after
            log.error("the breaker pauses the pipeline", pipeline=self.name, reason=halt.reason)
            self.around.metrics.breaker_trips.labels(self.name).inc()
            self.around.control.pause(self.name, by=BREAKER, reason=halt.reason, resume_after=after)
        elif halt.kind == "build":
            self._break(f"{halt.code}: {halt.reason}")
        elif halt.kind in ("outage", "error"):
            if halt.kind == "outage" and outcome.counts.acted:
                self._outage.succeed()  # it got somewhere: a limit that lets some through is looked at again soon
            self._outage.fail(halt.retry_after)
            if halt.kind == "error":
                # A fresh start of everything the worker holds of this pipeline.
                if self.alone:
                    # While it is known what is settled: the old source is told before the new one is made.
                    self.around.dispatcher.renew(self)
                    self.membership.begin_anew()
                self.revision += 1
            self.say("waiting", halt.reason)

    def _take_loss(self, loss: Loss) -> None:
        log.warning("a worker process died", pipeline=self.name, reason=loss.reason)
        self.around.metrics.worker_deaths.labels(self.name).inc()
        if self.units.lose(loss):
            # Alone, and at no event: it dies while it is made. Not more often than an outage is looked at.
            self._outage.fail()
            self.say("waiting", f"its worker process dies: {loss.reason}")
        self.around.dispatcher.ready(self)

    # -- failing ---------------------------------------------------------------------------

    def _fail(self, reason: str, outcome: UnitOutcome) -> None:
        """THROW: no instance goes on, now or after a restart, until a person says so."""
        log.error("pipeline failed", pipeline=self.name, reason=reason)
        self.say("failed", reason)
        self.around.control.fail(self.name, reason, self._stopped_at(outcome))

    def _break(self, reason: str) -> None:
        """This instance cannot run the pipeline; others may, and so may this one with another configuration."""
        log.error("pipeline failed", pipeline=self.name, reason=reason)
        self._defect = reason
        self.say("failed", reason)

    def _stopped_at(self, outcome: UnitOutcome) -> list[dict[str, Any]]:
        """Coordinates of the failures that remain unfinished."""
        parts = {part.key: part for part in outcome.partitions}
        records = [failed.record for failed in outcome.failures]
        return [
            {
                "topic": r.topic(),
                "topic_id": self.membership.topic_ids.get(r.topic(), ""),
                "partition": r.partition(),
                "offset": r.offset(),
            }
            for r in records
            if (part := parts.get((r.topic(), r.partition()))) is not None
            and (r.offset() >= part.next_offset or r.offset() in part.pending)
        ]


def _kind(spec: PipelineSpec) -> type[GroupMembership]:
    if spec.source.is_foreign:
        return ExternalMembership
    return StatelessMembership if spec.source.config.stateless else GroupMembership
