"""A pipeline on the driver. `PipelineRunner` is one thread that owns the pipeline's group membership and partitions.

Lane threads ask it for units (`plan`), run them on Spark and put what comes back into its mailbox (`deliver`, `lose`).
The runner's thread takes outcomes to their commits, serves rebalances, and carries out the desired state. It is
composed of parts with one job each: the membership (which partitions are owned, commits), the partition table (where
each stands), the planner (the next unit), the outcome handler (account, settle, advance, commit), the status reporter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.dead_letter import Stage
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal
from penstock.core.failpoints import reach
from penstock.core.status import PartitionStatus, State
from penstock.core.threads import Mailbox, Thread
from penstock.engine.desired_state import DesiredState
from penstock.engine.pipelines.activity import Activity, ActivityState
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.crashed_events import CrashedEvents, KafkaCrashedEvents
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.pipelines.external import ExternalMembership
from penstock.engine.pipelines.group import GroupMembership, Membership, PauseDetector, StatelessMembership
from penstock.engine.pipelines.outcomes import OutcomeHandler, Reactions, WorkerLoss
from penstock.engine.pipelines.partitions import PartitionTable
from penstock.engine.pipelines.planner import UnitPlanner, UnitTable, new_revision
from penstock.engine.pipelines.stats import OutcomeObserver, PipelineStats
from penstock.engine.pipelines.status import StatusReporter
from penstock.kafka.group_consumer import CommitRefused
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import CLOSING, Blueprint, Partition, UnitOutcome, UnitRequest

log = structlog.get_logger("penstock.pipeline")

SOURCE_ENDED = "its source has ended"
BREAKER = "breaker"
"""Who pauses and resumes, where no person does."""
_SHORT = 0.25
"""Seconds between polls of the group while units are in flight; outcomes wake the thread at once."""
_COMMIT_TIME = 1.0
"""Seconds of `drain_timeout` that are kept for the last commit; acknowledgements are waited for until then."""
_DEDICATED_LAG = 20_000
"""Records behind at which a pipeline gets dedicated lanes from the start."""
_serials = itertools.count(1)

_Mail = tuple[UnitOutcome, float] | WorkerLoss | str


class PipelineRunner:
    """Runs one pipeline from start to stop. Public methods may be called from any thread."""

    def __init__(
        self,
        spec: PipelineSpec,
        blueprint: Blueprint,
        context: EngineContext,
        *,
        pinned: bool,
        crashed: CrashedEvents | None = None,
    ) -> None:
        clock, threads = context.clock, context.threads
        self.spec, self.name, self.context, self.pinned = spec, spec.name, context, pinned
        self.alone = spec.source.is_foreign
        """Whether it shares its lane with no other pipeline."""
        self.parallelism = spec.options.parallelism or 1
        self.finished = False
        """True: its source has ended, and everything of it is settled."""
        self.observed_revision: int | None = None
        """Revision of the desired state that is carried out."""
        self.started = False
        self._key = f"{spec.name}/{next(_serials)}"
        self.partitions = PartitionTable(threads=threads)
        self.units = UnitTable(self.partitions)
        self.activity = Activity(context.idle_policy, clock)
        self.stats = PipelineStats(clock)
        self.status = StatusReporter(spec.name, spec.secrets, context.metrics)
        self.membership: Membership = _membership_class(spec)(
            spec, blueprint.client, context, self.partitions, drain=self._drain, stop_units=self._stop_units
        )
        self._writer = DeadLetterWriter(blueprint, context.store)
        self._pauses = PauseDetector(context.session_timeout / 3, clock)
        self._joining = Backoff(clock=clock)
        """Joining the group failed, or something broke while in it."""
        self._outage = Backoff(clock=clock)
        """Of what the pipeline's plug-ins need: target, registry, broker."""
        self.outcomes = OutcomeHandler(
            spec,
            context,
            partitions=self.partitions,
            units=self.units,
            membership=self.membership,
            writer=self._writer,
            crashed=crashed or KafkaCrashedEvents(spec, blueprint.client),
            status=self.status,
            observer=OutcomeObserver(spec, self.stats, context.metrics, context.taps),
            reactions=Reactions(self._apply_halt, self._report_ready, self._isolate, self._renew),
        )
        self.planner = UnitPlanner(
            spec,
            blueprint,
            self.partitions,
            self.units,
            activity=self.activity,
            pauses=self._pauses,
            outages=(self._outage, self.outcomes.trouble, self.outcomes.rejections),
            taps=context.taps,
            alone=self.alone,
            clock=clock,
        )
        self.planner.desired = context.desired.desired(spec.name)
        self._restarts = self.desired.restarts
        self._defect: str | None = None
        """Why this instance cannot run the pipeline, whatever is desired."""
        self._stopping = False
        self._placed = False
        """Whether the dispatcher knows it."""
        self._mail: Mailbox[_Mail] = threads.mailbox()
        self._ended = threads.event()
        self._thread: Thread | None = None

    # -- what the instance asks ------------------------------------------------------------

    def start(self) -> None:
        self.context.metrics.begin(self.name, self.spec.group)
        self.context.metrics.set_state(self.name, self.state)
        self._place()
        self._restarts = self.desired.restarts
        self.started = True
        self.context.idle_policy.enter(self.activity)
        self._thread = self.context.threads.start(
            f"runner-{self.name}", self._run, owner="PipelineRunner", ends="at `stop`, once it has left its group"
        )

    def stop(self) -> None:
        """Plan nothing more; the thread finishes what is in flight and leaves the group."""
        self._stopping = self.planner.leaving = True
        self._mail.put("stop")

    def wait_ended(self, timeout: float) -> bool:
        return self._ended.wait(timeout)

    def set_desired(self, desired: DesiredState) -> None:
        """The runner's thread carries it out."""
        if desired != self.desired:
            self.planner.desired = desired
            self.context.metrics.breaker_open.labels(self.name).set(desired.state == "paused" and desired.by == BREAKER)
            self._mail.put("desired")

    def limit_rate(self, rate: float | None) -> None:
        """Another rate limit of the spec, from the next unit on."""
        options = self.spec.options.model_copy(update={"rate_limit": rate})
        self.spec = self.planner.spec = self.spec.model_copy(update={"options": options})

    @property
    def desired(self) -> DesiredState:
        return self.planner.desired

    @property
    def state(self) -> State:
        return self.status.state

    @property
    def reason(self) -> str | None:
        return self.status.reason

    @property
    def is_over(self) -> bool:
        """True: it has failed, or its source has ended; nothing more happens unless someone changes that."""
        return self.state == "failed" or self.finished

    @property
    def is_halted(self) -> bool:
        """True: nothing is read until someone changes that."""
        return self.is_over or self.desired.paused or self.desired.state in ("stopped", "failed")

    def partition_statuses(self) -> list[PartitionStatus]:
        if not self.membership.has_log:
            return []
        return self.partitions.statuses(self.context.instance, commits=self.membership.commits)

    def lag(self) -> int | None:
        """Records behind; None before the first positions are known."""
        if not self.membership.settled:
            return None
        return self.partitions.lag() if self.membership.has_log else 0

    def caught_up(self, ends: Mapping[Partition, int]) -> bool:
        """True when everything below these ends is finished and committed, or nothing will be."""
        if self.is_halted:
            return True
        if not self.membership.settled:
            return False
        with self.partitions.lock:
            if not self.membership.has_log:
                return all(state.at_end and not state.pending for state in self.partitions)
            done = {state.key: state.position for state in self.partitions if not state.is_dirty}
        return all(done.get(tp, -1) >= end for tp, end in ends.items())

    # -- what lanes ask (engine.lanes.planned.PlannedPipeline) -------------------------------

    @property
    def revision(self) -> int:
        return self.planner.revision

    @property
    def timeout(self) -> float:
        return self.spec.options.timeout

    @property
    def is_dedicated(self) -> bool:
        return self.activity.state == "dedicated"

    @property
    def has_isolated(self) -> bool:
        return self.planner.has_isolated

    @property
    def busy(self) -> bool:
        return bool(self.units)

    @property
    def wake_at(self) -> float | None:
        return self.planner.wake_at

    def holds(self, units: set[int], lane: str) -> bool:
        return any(unit.lane == lane for each in units if (unit := self.units.get(each)) is not None)

    def plan(
        self, lane: str, lanes: tuple[str, ...], new_unit: Callable[[], int], *, seconds: float | None = None
    ) -> UnitRequest | None:
        return self.planner.plan(lane, lanes, new_unit, seconds=seconds)

    def plan_isolated(self, lane: str, new_unit: Callable[[], int]) -> UnitRequest | None:
        return self.planner.plan_isolated(lane, new_unit)

    def closing_unit(self, unit: int) -> UnitRequest:
        last, seconds = self.membership.last_positions(), CLOSING if self.alone else 0.0
        return UnitRequest(unit, self.name, self.revision, b"", last, seconds, 0, closing=True)

    def deliver(self, outcome: UnitOutcome, seconds: float) -> None:
        self._mail.put((outcome, seconds))

    def lose(
        self,
        units: set[int],
        suspects: Mapping[int, Sequence[InFlight]] | None,
        *,
        stage: Stage | None,
        reason: str,
    ) -> None:
        if mine := units & self.units.ids():
            self._mail.put(WorkerLoss(mine, suspects, stage, reason))

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
            self._unplace()
            self.context.idle_policy.leave(self.activity)
            self._writer.close()
            if self.state != "failed":
                self.status.report("stopped")
            self._ended.set()

    def _live(self) -> None:
        """Membership from joining to leaving."""
        self.planner.leaving = self._leaves
        self.membership.join()
        self._pauses.reset()
        try:
            while not self._leaves:
                self._tick()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Finish what is in flight and leave the group, whatever goes wrong on the way: a member that stayed would hold
        partitions that no runner works on."""
        self.planner.leaving = True
        deadline = Deadline.after(self.spec.options.drain_timeout, self.context.clock)
        try:
            if self._leaves:
                self._finish_units(deadline)
                self._close_actions(deadline)
            else:
                # It comes back at once: its actions stay as they are.
                self._drain(self.partitions.owned())
        finally:
            self.outcomes.forget(self.units.ids())
            self.membership.leave()

    def _wait_out(self, reason: str) -> None:
        self.status.report("waiting", reason)
        wait = Deadline.after(self._joining.fail(), self.context.clock)
        while not (wait.expired or self._leaves):
            self._read_mail(min(0.2, wait.remaining))

    def _tick(self) -> None:
        if self.activity.is_idle and self.outcomes.none_open:
            self._rest()
        else:
            self._read_mail(_SHORT)
            self._poll(0.0)
        self.outcomes.retry_held()
        self.outcomes.commit()
        if self._pauses.stalled:
            self._verify_membership()
        if self.membership.resolve():
            self._partitions_arrived()
        if self._joining.failures and self.membership.is_well:
            self._joining.succeed()
        if not self._pauses_on_request():
            self._show_membership()
        self._become_idle()

    def _rest(self) -> None:
        """Nothing is in flight. A member that has its partitions waits for mail: in `poll` the client wakes up five
        times a second, which adds up over hundreds of pipelines. One that has none polls, because a start waits for it.
        """
        if self.membership.settled and len(self.partitions):
            # Well within what counts as a pause of the process.
            self._read_mail(min(self.context.idle_policy.poll_every, self.context.session_timeout / 6))
            self._poll(0.0)
        else:
            self._poll(1.0 if self.membership.settled else 0.1)
            self._read_mail(0.0)

    def _poll(self, timeout: float) -> None:
        if self.membership.poll(timeout):
            self._pauses.tick()

    def _verify_membership(self) -> None:
        """The process was paused: whether the partitions are still its own, a commit tells."""
        with self.partitions.lock:
            owned = list(self.partitions)
        try:
            if self.membership.commits:
                self.membership.commit(owned)
        except CommitRefused as error:
            log.warning("membership cannot be verified after a pause", pipeline=self.name, reason=str(error))
            return
        self._pauses.reset()
        self._report_ready()

    def _read_mail(self, timeout: float) -> None:
        """Take what lanes have delivered, waiting up to `timeout` seconds for the first."""
        mail = self._mail.get(timeout)
        while mail is not None:
            if isinstance(mail, WorkerLoss):
                self._accept_loss(mail)
            elif not isinstance(mail, str):
                self._accept(*mail)
            mail = self._mail.get()

    def _accept(self, outcome: UnitOutcome, seconds: float) -> None:
        if outcome.counts.read or outcome.halt:
            self.activity.touch()
        if self.outcomes.accept(outcome) and not self.pinned:
            lanes = len(self.context.dispatcher.lanes_of(self))
            if change := self.activity.after(outcome, seconds, lanes=lanes):
                self._change_activity(change)

    def _accept_loss(self, loss: WorkerLoss) -> None:
        log.warning("a worker process died", pipeline=self.name, reason=loss.reason)
        self.context.count(lambda metrics: metrics.worker_deaths.labels(self.name).inc())
        if self.outcomes.lose(loss):
            # Alone, and at no event: it dies while it is built. Not more often than an outage is looked at.
            self._outage.fail()
            self.status.report("waiting", f"its worker process dies: {loss.reason}")
        self._report_ready()

    # -- desired state ---------------------------------------------------------------------

    @property
    def _leaves(self) -> bool:
        """True: finish what is in flight and leave the group."""
        here = self._stopping or self._defect is not None or self.finished
        return here or self.desired.away or self.desired.restarts != self._restarts

    def _stays_away(self) -> bool:
        """Whether to be out of the group now: someone asked for it, or this instance cannot run the pipeline."""
        desired = self.desired
        if self._leaves:
            self._unplace()
            self.activity.become("idle")
            self.membership.forget_start()
        if desired.restarts != self._restarts:
            self._restarts, self._defect, self.finished = desired.restarts, None, False
            self.planner.revision = new_revision()
        if desired.away or self._defect is not None or self.finished:
            self.status.report(*(desired.shown() if desired.away else self._own_end))
            self.observed_revision = desired.revision
            self._read_mail(0.5)
            return True
        if not self._placed:
            self._place()
            self.status.report("starting")
        return False

    def _place(self) -> None:
        self.context.dispatcher.add(self)
        self._placed = True

    def _unplace(self) -> None:
        if self._placed:
            self._placed = False
            self.context.idle_watcher.leave(self._key)
            self.context.dispatcher.remove(self)

    @property
    def _own_end(self) -> tuple[State, str | None]:
        return ("stopped", SOURCE_ENDED) if self._defect is None else ("failed", self._defect)

    def _pauses_on_request(self) -> bool:
        """Whether to hold the partitions and run nothing; what is in flight is finished first."""
        desired = self.desired
        if desired.paused:
            if self.outcomes.none_open:
                self.status.report(*desired.shown())
                self.observed_revision = desired.revision
            return True
        if self.state == "paused":
            self.status.report("running")
            self._wake_up()
            self._report_ready()
        if not self._leaves:
            self.observed_revision = desired.revision
        return False

    def _show_membership(self) -> None:
        if self.state == "failed":
            return
        trouble = self.membership.trouble() or self.partitions.blocked_by()
        handler = self.outcomes
        if trouble:
            self.status.report("waiting", trouble)
        elif not any(each.failures for each in (self._outage, handler.trouble, handler.rejections, self._joining)):
            idle = self.activity.is_idle or not len(self.partitions)
            self.status.report("idle" if idle else "running", self.membership.remark())

    # -- what an outcome means for the pipeline ----------------------------------------------

    def _apply_halt(self, outcome: UnitOutcome) -> None:
        halt = outcome.halt
        if outcome.ended:
            self.finished = True
        if halt is None:
            if self._outage.failures:
                self._outage.succeed()
            if self.desired.trial and outcome.counts.acted:
                self.context.desired.resume(self.name, by=BREAKER, reason="the trial went well")
        elif halt.kind == "throw":
            self._fail(f"{halt.code}: {halt.reason}", outcome)
        elif halt.kind == "breaker":
            after = self.spec.options.breaker.resume_after
            log.error("the breaker pauses the pipeline", pipeline=self.name, reason=halt.reason)
            self.context.count(lambda metrics: metrics.breaker_trips.labels(self.name).inc())
            self.context.desired.pause(self.name, by=BREAKER, reason=halt.reason, resume_after=after)
        elif halt.kind == "build":
            self._break(f"{halt.code}: {halt.reason}")
        elif halt.kind in ("outage", "error"):
            if halt.kind == "outage" and outcome.counts.acted:
                self._outage.succeed()  # there was progress: a limit that lets some through is tried again soon
            self._outage.fail(halt.retry_after)
            if halt.kind == "error":
                self._renew()
            self.status.report("waiting", halt.reason)

    def _renew(self) -> None:
        """Discard what workers hold of this pipeline: the next unit builds it again."""
        if self.alone:
            # While it is known what is settled: the old source acknowledges it before the new one is made.
            self.context.dispatcher.renew(self)
            self.membership.start_over()
        self.planner.revision = new_revision()

    def _fail(self, reason: str, outcome: UnitOutcome) -> None:
        """THROW: no instance goes on, now or after a restart, until a person resumes the pipeline."""
        log.error("pipeline failed", pipeline=self.name, reason=reason)
        self.status.report("failed", reason)
        self.context.desired.fail(self.name, reason, self._stopped_at(outcome))

    def _break(self, reason: str) -> None:
        """This instance cannot run the pipeline; others may, and so may this one with another configuration."""
        log.error("pipeline failed", pipeline=self.name, reason=reason)
        self._defect = reason
        self.status.report("failed", reason)

    def _stopped_at(self, outcome: UnitOutcome) -> list[dict[str, Any]]:
        """Coordinates of the failures that remain unfinished."""
        parts = {part.key: part for part in outcome.partitions}
        records = [failed.record for failed in outcome.failures]
        return [
            {"topic": r.topic(), "topic_id": self._topic_id(r.topic(), r.partition())}
            | {"partition": r.partition(), "offset": r.offset()}
            for r in records
            if (part := parts.get((r.topic(), r.partition()))) is not None
            and (r.offset() >= part.next_offset or r.offset() in part.pending)
        ]

    def _topic_id(self, topic: str, partition: int) -> str:
        state = self.partitions.get((topic, partition))
        return state.topic_id if state is not None else ""

    def _report_ready(self) -> None:
        self.context.dispatcher.ready(self)

    def _isolate(self) -> None:
        self.context.dispatcher.isolate(self)

    # -- revoke, stop ------------------------------------------------------------------------

    def _drain(self, partitions: list[Partition]) -> None:
        """Called inside a rebalance: finish what is in flight there, settle and commit it, within `drain_timeout`. I10:
        acknowledgements that are open are waited for, or their events would be repeated."""
        self.context.idle_watcher.leave(self._key)
        deadline = Deadline.after(self.spec.options.drain_timeout, self.context.clock)
        with self.partitions.lock:
            for tp in partitions:
                if state := self.partitions.get(tp):
                    state.revoked, state.collect_until = True, deadline.at - _COMMIT_TIME
        reach("mid-rebalance")
        self._report_ready()
        while self._open_on(partitions):
            if deadline.expired:
                self._abandon(self.units.on(partitions))
                break
            self._read_mail(_SHORT)
            self.outcomes.retry_held()
            self.outcomes.commit()
        with self.partitions.lock:
            states = [self.partitions.get(tp) for tp in partitions]
            deferred = sum(state.deferred for state in states if state is not None)
        if deferred:
            log.warning("work abandoned: not acknowledged within drain_timeout", pipeline=self.name, events=deferred)
        if self.activity.is_idle:
            # The idle watcher must not go on watching partitions that are no longer ours.
            self._wake_up()

    def _open_on(self, partitions: list[Partition]) -> bool:
        with self.partitions.lock:
            open_ = {state.key for state in self.partitions if state.is_dirty or state.collects}
        return bool(self.units.on(partitions) or open_.intersection(partitions))

    def _abandon(self, units: set[int]) -> None:
        """Kill the workers that still hold units. Units that have returned and wait for the store are in no worker: the
        next owner repeats them."""
        running = units - self.outcomes.held_units
        log.warning("work abandoned: it did not end within drain_timeout", pipeline=self.name, units=len(units))
        if running:
            self.context.dispatcher.cancel(running)

    def _stop_units(self, partitions: list[Partition]) -> None:
        """The partitions are lost: no further act may begin on them (I4)."""
        if units := self.units.on(partitions):
            self.context.dispatcher.stop_units(units)

    def _finish_units(self, deadline: Deadline) -> None:
        if self.outcomes.none_open:
            return
        if self.state != "failed":
            self.status.report("stopping")
        while not (self.outcomes.none_open or deadline.expired):
            self._read_mail(_SHORT)
            self.outcomes.retry_held()
            self.outcomes.commit()
        if self.units:
            self._abandon(self.units.ids())

    def _close_actions(self, deadline: Deadline) -> None:
        """An action that has deferred events may acknowledge them when it is closed: that happens while their offsets
        can still be committed."""
        pending = any(state.pending for state in self.partitions)
        if not (pending and self.pinned and not self.alone and self.outcomes.none_open):
            return
        # Lock order: the dispatcher is asked without the partition table's lock.
        self.planner.closing_lanes = set(self.context.dispatcher.lanes_of(self))
        self._report_ready()
        while self.planner.closing_lanes and not deadline.expired:
            self._read_mail(_SHORT)
        self.planner.closing_lanes = set()
        self._finish_units(deadline)

    # -- activity ----------------------------------------------------------------------------

    def _change_activity(self, state: ActivityState) -> None:
        self.activity.become(state)
        self.context.dispatcher.dedicate(self, on=state == "dedicated")

    def _partitions_arrived(self) -> None:
        """New partitions have their positions."""
        self.context.count(lambda metrics: metrics.rebalances.labels(self.name, "assigned").inc())
        lag = self.partitions.lag()
        if lag >= _DEDICATED_LAG and not self.pinned:
            self.activity.touch()
            self._change_activity("dedicated")
        elif lag or not self.membership.has_log:
            self._wake_up()
        elif self.activity.is_idle:
            self._watch()
        self._report_ready()

    def _become_idle(self) -> None:
        """Nothing arrived for a while and nothing is open: hold nothing until the idle watcher sees a record."""
        if self.activity.is_idle or self.alone or not self.activity.is_quiet or not self.outcomes.none_open:
            return
        with self.partitions.lock:
            if not self.partitions.all_at_end():
                return
            self.activity.become("idle")
        self._watch()

    def _watch(self) -> None:
        with self.partitions.lock:
            offsets = {state.key: state.next_offset for state in self.partitions}
        if offsets:
            self.context.idle_watcher.watch(self._key, offsets, self._wake_up)

    def _wake_up(self) -> None:
        """Something has arrived; called by the idle watcher's thread, too."""
        self.context.idle_watcher.leave(self._key)
        self.activity.touch()
        with self.partitions.lock:
            was_idle = self.activity.is_idle
            if was_idle:
                self.activity.become("shared")
        if was_idle:
            self.context.dispatcher.wake(self)


def _membership_class(spec: PipelineSpec) -> type[Membership]:
    if spec.source.is_foreign:
        return ExternalMembership
    return StatelessMembership if spec.source.config.stateless else GroupMembership
