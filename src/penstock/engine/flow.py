"""A pipeline on the driver: its group member, its partitions, and what happens between a unit's outcome and the next
unit."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import PenstockError, Terminal, Unavailable
from penstock.core.failpoints import reach
from penstock.core.status import PartitionStatus, State
from penstock.engine.backoff import Backoff
from penstock.engine.books import Books
from penstock.engine.control import Wanted
from penstock.engine.ledger import Owned
from penstock.engine.membership import Membership
from penstock.engine.settling import dead_letters
from penstock.engine.stateless import Stateless
from penstock.engine.surround import Surround
from penstock.engine.warmth import Temperature, Warmth
from penstock.kafka.member import CommitRefused
from penstock.worker.journal import Progress
from penstock.worker.protocol import Blueprint, Partition, UnitOutcome, UnitRequest

log = structlog.get_logger("penstock.pipeline")

_HOT_LAG = 20_000
"""Records behind at which a pipeline gets lanes of its own from the start."""
_SHORT = 0.25
"""How often a member with units under way looks for rebalances; outcomes wake it at once."""


@dataclass(slots=True)
class _Lost:
    units: set[int]
    done: dict[Partition, int]
    reason: str


class Flow:
    """One thread per pipeline owns its group member; lanes plan units from it under its lock."""

    def __init__(self, spec: PipelineSpec, blueprint: Blueprint, around: Surround, *, pinned: bool) -> None:
        self.spec = spec
        self.name = spec.name
        self.around = around
        self.pinned = pinned
        self.parallelism = spec.options.parallelism or 1
        self.books = Books()
        self.state: State = "starting"
        self.reason: str | None = None
        self.home: tuple[str, ...] = ()
        self.lanes: tuple[str, ...] = ()
        self.express_seconds: float | None = None
        self.warmth = Warmth(around.cold_after)
        self.lock = threading.RLock()
        kind = Stateless if spec.source.config.stateless else Membership
        self.membership = kind(spec, blueprint.client, around, self)
        self._blueprint = pickle.dumps(blueprint, protocol=pickle.HIGHEST_PROTOCOL)
        # Unique over removals and additions: executors keep what they built by name and generation.
        self._generation = time.time_ns()
        self._mail: queue.SimpleQueue[tuple[UnitOutcome, float] | _Lost | None] = queue.SimpleQueue()
        self._units: dict[int, str] = {}
        self._carried: dict[int, list[Partition]] = {}
        self._unsettled: list[UnitOutcome] = []
        self._uncommitted: set[Partition] = set()
        self._outage = Backoff()
        self._trouble = Backoff()
        self.wanted = around.control.wanted(spec.name)
        self.obeyed: int | None = None
        """Revision of the desired state that is carried out."""
        self._restarts = self.wanted.restarts
        self._defect: str | None = None
        """Why this instance cannot run the pipeline, whatever is wanted."""
        self._stopping = False
        self._ended = threading.Event()
        self.started = False
        self._thread = threading.Thread(target=self._run, name=f"flow-{spec.name}", daemon=True)

    # -- what lanes and the dispatcher ask -------------------------------------------------

    @property
    def not_before(self) -> float:
        """Monotonic time before which no unit is planned."""
        return max(self._outage.until, self._trouble.until)

    @property
    def temperature(self) -> Temperature:
        return self.warmth.temperature

    @property
    def busy(self) -> bool:
        return bool(self._units)

    def holds(self, units: set[int], lane: str) -> bool:
        return any(self._units.get(unit) == lane for unit in units)

    def plan(self, lane: str, new_unit: Callable[[], int]) -> UnitRequest | None:
        """A unit for this lane's next window, if any of its partitions are ready."""
        with self.lock:
            if (
                self._stopping
                or self.warmth.is_cold
                or self._leaves
                or self.wanted.paused
                or time.monotonic() < self.not_before
            ):
                return None
            if lane in self._units.values():
                # The action object is used by one unit at a time; one is still detached there.
                return None
            order = sorted(self.membership.owned)
            mine = [self.membership.owned[tp] for i, tp in enumerate(order) if self.lanes[i % len(self.lanes)] == lane]
            ready = [own for own in mine if own.unit is None and not own.fenced]
            if not ready:
                return None
            unit = new_unit()
            for own in ready:
                own.unit = unit
            self._units[unit] = lane
            self._carried[unit] = [own.key for own in ready]
            return self._request(unit, ready)

    def _request(self, unit: int, ready: list[Owned]) -> UnitRequest:
        window = self.spec.options.window
        seconds = self.express_seconds or window.deadline
        return UnitRequest(
            unit,
            self.name,
            self._generation,
            self._blueprint,
            [own.assignment() for own in ready],
            seconds,
            window.max_records,
            rate=self._share(len(ready)),
        )

    @property
    def rate_limit_per_second(self) -> float | None:
        """Over all instances; what the store says is stronger than the spec."""
        given = self.wanted.rate_limit
        return self.spec.options.rate_limit if given is None else given or None

    def _share(self, partitions: int) -> float | None:
        """The rate limit's share of a unit with so many of the pipeline's partitions."""
        limit = self.rate_limit_per_second
        return limit and limit * partitions / max(self.membership.total, len(self.membership.owned))

    def closing_unit(self, unit: int) -> UnitRequest:
        return UnitRequest(unit, self.name, self._generation, b"", [], 0.0, 0, closing=True)

    def deliver(self, outcome: UnitOutcome, seconds: float) -> None:
        self._mail.put((outcome, seconds))

    def lose(self, units: set[int], progress: dict[int, dict[int, Progress]], reason: str) -> None:
        """The worker that held these units is gone; `progress` is what its journal says."""
        with self.lock:
            mine = units & set(self._units)
            done = {
                self._carried[unit][index]: noted.done
                for unit in mine
                for index, noted in progress.get(unit, {}).items()
            }
        if mine:
            self._mail.put(_Lost(mine, done, reason))

    # -- what the instance asks ------------------------------------------------------------

    def start(self) -> None:
        self.around.dispatcher.add(self)
        self._restarts = self.wanted.restarts
        self.started = True
        self._thread.start()

    def stop(self) -> None:
        """Plan nothing more; the thread finishes what is under way and leaves the group."""
        self._stopping = True
        self._mail.put(None)

    def wait_ended(self, timeout: float) -> bool:
        return self._ended.wait(timeout)

    def want(self, wanted: Wanted) -> None:
        """Take what is wanted of this pipeline; the flow's thread carries it out."""
        if wanted != self.wanted:
            self.wanted = wanted
            self._mail.put(None)

    @property
    def halted(self) -> bool:
        """True: nothing is read until somebody says so."""
        return self.state == "failed" or self.wanted.paused or self.wanted.state in ("stopped", "failed")

    def partitions(self) -> list[PartitionStatus]:
        return self.membership.partitions(self.around.instance)

    def caught_up(self, ends: dict[Partition, int]) -> bool:
        """True when everything below these ends is finished and committed, or nothing will be."""
        if self.halted:
            return True
        with self.lock:
            owned = {tp: own.position for tp, own in self.membership.owned.items() if tp not in self._uncommitted}
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
            if self.state != "failed":
                self._say("stopped")
            self._ended.set()

    def _live(self) -> None:
        """Membership from joining to leaving."""
        self.membership.join()
        try:
            while not self._leaves:
                self._tick()
        finally:
            self._finish_units(Deadline.after(self.spec.options.drain_timeout))
            self.membership.leave()

    def _wait_out(self, reason: str) -> None:
        self._say("waiting", reason)
        end = time.monotonic() + self._trouble.fail()
        while time.monotonic() < end and not self._leaves:
            self._read_mail(0.2)

    # -- what is wanted --------------------------------------------------------------------

    @property
    def _leaves(self) -> bool:
        """True: finish what is under way and leave the group."""
        return self._stopping or self._defect is not None or self.wanted.away or self.wanted.restarts != self._restarts

    def _stays_away(self) -> bool:
        """Whether to be out of the group now: it is wanted, or this instance cannot run the pipeline."""
        wanted = self.wanted
        if self._leaves and self.lanes:
            self.around.doorbell.leave(self.name)
            self.around.dispatcher.remove(self)
            self.lanes = ()
            self.warmth.become("cold")
        if wanted.restarts != self._restarts:
            self._restarts, self._defect, self._generation = wanted.restarts, None, self._generation + 1
        if wanted.away or self._defect is not None:
            self._say(*(wanted.shown() if wanted.away else ("failed", self._defect)))
            self.obeyed = wanted.revision
            self._read_mail(0.5)
            return True
        if not self.lanes:
            self.around.dispatcher.add(self)
            self._say("starting")
        return False

    def _pauses(self) -> bool:
        """Whether to hold the partitions and run nothing; what is under way is finished first."""
        wanted = self.wanted
        if wanted.paused:
            if not (self._units or self._uncommitted or self._unsettled):
                self._say(*wanted.shown())
                self.obeyed = wanted.revision
            return True
        if self.state == "paused":
            self._say("running")
            self._rung()
            self.around.dispatcher.ready(self)
        self.obeyed = wanted.revision
        return False

    def _tick(self) -> None:
        if self.warmth.is_cold and not self._units and not self._uncommitted:
            # A member that has not got its partitions yet looks more often: it is what a start waits for.
            self.membership.poll(1.0 if self.membership.settled else 0.1)
            self._read_mail(0.0)
        else:
            self._read_mail(_SHORT)
            self.membership.poll(0.0)
        self._settle_waiting()
        self._commit()
        if self.membership.resolve():
            self._arrived()
        if not self._pauses():
            self._show_membership()
        self._cool_down()

    def _read_mail(self, timeout: float) -> None:
        try:
            mail = self._mail.get(timeout=timeout) if timeout else self._mail.get_nowait()
            while True:
                if isinstance(mail, _Lost):
                    self._take_loss(mail)
                elif mail is not None:
                    self._take(*mail)
                mail = self._mail.get_nowait()
        except queue.Empty:
            return

    # -- outcomes --------------------------------------------------------------------------

    def _take(self, outcome: UnitOutcome, seconds: float) -> None:
        if outcome.status == "detached" or outcome.unit not in self._units:
            return
        self.books.add(outcome)
        if outcome.counts.read:
            self.warmth.touch()
        self._count(outcome)
        if outcome.counts.acted:
            reach("after-act")
        if outcome.failures and not self._settle(outcome):
            self._unsettled.append(outcome)
            return
        self._advance(outcome, seconds)

    def _count(self, outcome: UnitOutcome) -> None:
        c, metrics = outcome.counts, self.around.metrics
        metrics.add_events(self.name, acted=c.acted, filtered=c.filtered, failed=c.failed)
        if outcome.failures:
            stages = [failed.failure.stage for failed in outcome.failures]
            metrics.add_failures(self.name, {stage: stages.count(stage) for stage in set(stages)})
        if outcome.latencies.total:
            metrics.observe_latencies(self.name, outcome.latencies)

    def _settle(self, outcome: UnitOutcome) -> bool:
        """I1: failures are durable before the offsets beyond them are committed."""
        try:
            self.around.store.dead_letters.record(dead_letters(self.spec, outcome.failures, self.membership.topic_ids))
        except Unavailable as error:
            self.around.metrics.store_errors.labels("settle").inc()
            self._trouble.fail()
            self._say("waiting", f"dead letters cannot be stored: {error}")
            return False
        reach("after-settle")
        return True

    def _settle_waiting(self) -> None:
        if self._unsettled and not self._trouble.waiting:
            held, self._unsettled = self._unsettled, []
            for outcome in held:
                if self._settle(outcome):
                    self._trouble.succeed()
                    self._advance(outcome, 0.0)
                else:
                    self._unsettled.append(outcome)

    def _advance(self, outcome: UnitOutcome, seconds: float) -> None:
        with self.lock:
            del self._units[outcome.unit]
            self._carried.pop(outcome.unit, None)
            for part in outcome.partitions:
                own = self.membership.owned.get(part.key)
                if own is None or own.epoch != part.epoch:
                    continue
                before = (own.frontier, own.holes)
                own.advance(part)
                if self.membership.commits and (own.frontier, own.holes) != before:
                    self._uncommitted.add(part.key)
                else:
                    own.unit = None
                if part.out_of_range or part.gone or own.doubtful:
                    self.membership.doubt(part.key)
        self._commit()
        self._heed(outcome)
        if not self.pinned and (change := self.warmth.after(outcome, seconds, lanes=len(self.lanes))):
            self._set_temperature(change)
        self.around.dispatcher.ready(self)

    def _commit(self) -> None:
        with self.lock:
            waiting = [own for tp in self._uncommitted if (own := self.membership.owned.get(tp))]
            self._uncommitted = {own.key for own in waiting}
        if not waiting or self._trouble.waiting:
            return
        began = time.monotonic()
        try:
            self.membership.commit(waiting)
        except CommitRefused as error:
            if not error.lost:
                self._trouble.fail()
                self._say("waiting", str(error))
            return
        self.around.metrics.commit_seconds.observe(time.monotonic() - began)
        if not self._unsettled:
            self._trouble.succeed()
        with self.lock:
            for own in waiting:
                own.unit = None
                self._uncommitted.discard(own.key)
        self.around.dispatcher.ready(self)

    def _heed(self, outcome: UnitOutcome) -> None:
        """What a unit's early end means for the pipeline."""
        halt = outcome.halt
        if halt is None:
            if self._outage.failures:
                self._outage.succeed()
            return
        if halt.kind == "unknown":
            return
        if halt.kind == "throw":
            self._fail(f"{halt.code}: {halt.reason}", outcome)
            return
        if halt.kind == "build":
            self._break(f"{halt.code}: {halt.reason}")
            return
        self._outage.fail(halt.retry_after)
        if halt.kind == "error":
            # A fresh start of everything the worker holds of this pipeline.
            self._generation += 1
        self._say("waiting", halt.reason)

    def _take_loss(self, lost: _Lost) -> None:
        """The worker died: what its journal calls done is done, the rest of its units is planned again."""
        with self.lock:
            for unit in lost.units:
                self._units.pop(unit, None)
                self._carried.pop(unit, None)
            for own in self.membership.owned.values():
                if own.unit in lost.units:
                    done = lost.done.get(own.key, own.frontier)
                    if self.membership.commits and not own.holes and done > own.frontier:
                        own.frontier = done
                        self._uncommitted.add(own.key)
                    else:
                        own.unit = None
        self._outage.fail()
        self._say("waiting", f"a worker process died: {lost.reason}")
        self._commit()
        self.around.dispatcher.ready(self)

    # -- temperature -----------------------------------------------------------------------

    def _set_temperature(self, temperature: Temperature) -> None:
        self.warmth.become(temperature)
        self.around.dispatcher.heat(self, hot=temperature == "hot")

    def _arrived(self) -> None:
        """New partitions have their positions."""
        self.around.metrics.rebalances.labels(self.name, "assigned").inc()
        with self.lock:
            lag = self.membership.lag()
        if lag >= _HOT_LAG and not self.pinned:
            self.warmth.touch()
            self._set_temperature("hot")
        elif lag:
            self._rung()
        elif self.warmth.is_cold:
            self._watch()
        self.around.dispatcher.ready(self)

    def _cool_down(self) -> None:
        """Nothing for a while and nothing open: sleep until the doorbell rings."""
        if self.warmth.is_cold or self._units or self._uncommitted or self._unsettled or not self.warmth.is_idle:
            return
        with self.lock:
            owned = self.membership.owned.values()
            if any(not own.at_end or own.holes or own.unit is not None for own in owned):
                return
            self.warmth.become("cold")
        self._watch()

    def _watch(self) -> None:
        with self.lock:
            cursors = {own.key: own.frontier for own in self.membership.owned.values()}
        if cursors:
            self.around.doorbell.watch(self.name, cursors, self._rung)

    def _rung(self) -> None:
        """Something has arrived; called by the doorbell's thread too."""
        self.around.doorbell.leave(self.name)
        self.warmth.touch()
        with self.lock:
            asleep = self.warmth.is_cold
            if asleep:
                self.warmth.become("warm")
        if asleep:
            self.around.dispatcher.wake(self)

    # -- revoking and ending ---------------------------------------------------------------

    def drain(self, partitions: list[Partition]) -> None:
        """Called inside a rebalance: finish what is under way there, settle and commit it, within `drain_timeout`."""
        self.around.metrics.rebalances.labels(self.name, "revoked").inc()
        self.around.doorbell.leave(self.name)
        with self.lock:
            for tp in partitions:
                if own := self.membership.owned.get(tp):
                    own.fenced = True
        reach("mid-rebalance")
        deadline = Deadline.after(self.spec.options.drain_timeout)
        while (units := self._units_on(partitions)) or self._uncommitted & set(partitions):
            if deadline.expired:
                self._abandon(units)
                return
            self._read_mail(_SHORT)
            self._settle_waiting()
            self._commit()
        if self.warmth.is_cold:
            # The bell must not go on watching for partitions that are no longer ours.
            self._rung()

    def _units_on(self, partitions: list[Partition]) -> set[int]:
        with self.lock:
            return {own.unit for tp in partitions if (own := self.membership.owned.get(tp)) and own.unit in self._units}

    def _abandon(self, units: set[int]) -> None:
        log.warning("work abandoned: it did not end within drain_timeout", pipeline=self.name, units=len(units))
        self.around.dispatcher.cancel(units)
        with self.lock:
            for unit in units:
                self._units.pop(unit, None)
                self._carried.pop(unit, None)

    def dropped(self, partitions: list[Partition]) -> None:
        """These partitions are no longer ours."""
        for topic, partition in partitions:
            self.around.metrics.drop_partition(self.name, topic, partition)
            self._uncommitted.discard((topic, partition))

    def _finish_units(self, deadline: Deadline) -> None:
        if not self._units and not self._uncommitted and not self._unsettled:
            return
        if self.state != "failed":
            self._say("stopping")
        while (self._units or self._uncommitted or self._unsettled) and not deadline.expired:
            self._read_mail(_SHORT)
            self._settle_waiting()
            self._commit()
        if self._units:
            self._abandon(set(self._units))

    def _fail(self, reason: str, outcome: UnitOutcome) -> None:
        """THROW: no instance goes on, now or after a restart, until a person says so."""
        log.error("pipeline failed", pipeline=self.name, reason=reason)
        self._say("failed", reason)
        self.around.control.fail(self.name, reason, self._stopped_at(outcome))

    def _break(self, reason: str) -> None:
        """This instance cannot run the pipeline; others may, and so may this one with another configuration."""
        log.error("pipeline failed", pipeline=self.name, reason=reason)
        self._defect = reason
        self._say("failed", reason)

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
            and (r.offset() >= part.frontier or r.offset() in part.holes)
        ]

    def _show_membership(self) -> None:
        if self.state == "failed":
            return
        trouble = self.membership.trouble()
        if trouble:
            self._say("waiting", trouble)
        elif not self._outage.failures and not self._trouble.failures:
            self._say(
                "idle" if self.warmth.is_cold or not self.membership.owned else "running",
                self.membership.remark(),
            )

    def _say(self, state: State, reason: str | None = None) -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self.around.metrics.set_state(self.name, state)
            log.info("pipeline state", pipeline=self.name, state=state, **({"reason": reason} if reason else {}))
