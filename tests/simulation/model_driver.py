"""A driver in a few hundred lines, correct by default, with mistakes to switch on.

It is the self-test of world and judge: no schedule may find anything in the correct one, and every mistake must be
found. It knows no lanes beyond a shared one and an isolation lane, no idle pipelines and no breaker.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from penstock.core.commit_metadata import OpenRetry, decode, encode
from penstock.core.dead_letter import DeadLetter, Failure
from penstock.core.errors import Unavailable
from penstock.engine.spark.context import WindowLost
from penstock.kafka.group_consumer import Commit, CommitRefused, GroupConsumer
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import Assignment, FailedEvent, PartitionOutcome, Retry, UnitOutcome, UnitRequest
from penstock.worker.protocol import WindowRequest
from tests.simulation.instance import Seams
from tests.simulation.judge import WITH_CURSOR
from tests.simulation.schedule import SESSION_TIMEOUT, PipelineModel
from tests.simulation.target import Fenced

Place = tuple[str, int]
SHARED, ISOLATION = "shared", "isolation"


@dataclass(frozen=True, slots=True)
class Mistakes:
    commit_before_settle: bool = False
    no_epoch_check: bool = False
    next_offset_off_by_one: bool = False
    pending_dropped: bool = False
    in_flight_trusted_as_done: bool = False
    no_account_check: bool = False


@dataclass(slots=True)
class Own:
    """One partition of an instance."""

    place: Place
    epoch: int
    topic_id: str
    next: int
    pending: tuple[int, ...] = ()
    retries: dict[int, tuple[int, int, float]] = field(default_factory=dict)
    """Offset: attempts, first failure, due."""
    log_start: int = 0
    committed: int | None = None
    unit: int | None = None
    dirty: bool = False
    fenced: bool = False
    waits_until: float = 0.0
    suspected: set[int] = field(default_factory=set)
    killer: int | None = None

    @property
    def position(self) -> int:
        return min(self.pending, default=self.next)


class Listener:
    """Callbacks of one group consumer; those of a former one are ignored."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def _counts(self) -> bool:
        return self._runner.listener is self

    def assigned(self, places: list[Place]) -> None:
        if self._counts:
            self._runner.fresh.update(places)

    def revoked(self, places: list[Place]) -> None:
        if self._counts:
            self._runner.drain(places)
            self._runner.drop(places)

    def lost(self, places: list[Place]) -> None:
        if self._counts:
            self._runner.stop_units(places)
            self._runner.drop(places)


class Runner:
    """One pipeline."""

    epochs = itertools.count(1)

    def __init__(self, driver: ModelDriver, model: PipelineModel, revision: int) -> None:
        self.driver, self.model, self.revision, self.s = driver, model, revision, driver.seams
        self.mail = self.s.threads.mailbox()
        self.owned: dict[Place, Own] = {}
        self.fresh: set[Place] = set()
        self.units: dict[int, tuple[str, list[Place]]] = {}
        self.unsettled: list[UnitOutcome] = []
        self.consumer: GroupConsumer | None = None
        self.listener: Listener | None = None
        self.stopping = False
        self.ended = self.s.threads.event()
        self.ticked = self.now
        self.hold_until = 0.0
        self.unsure = False
        self.restarts = 0
        self.seen_ids_at = 0.0

    @property
    def now(self) -> float:
        return self.s.clock.monotonic()

    # -- the thread ------------------------------------------------------------------------

    def run(self) -> None:
        while not self.stopping:
            if self.leaves:
                self.mail.get(0.5)
                continue
            self.listener = Listener(self)
            self.consumer = self.s.consumer(self.model.name, self.listener)
            self.consumer.join(list(self.model.topics))
            self.ticked = self.now
            while not self.leaves:
                self.tick()
            self.drain(list(self.owned))
            self.listener, consumer = None, self.consumer
            consumer.close()
            self.drop([*self.owned, *self.fresh])
        self.ended.set()

    @property
    def leaves(self) -> bool:
        wanted = self.driver.wanted.get(self.model.name)
        away = wanted is not None and (wanted.held or wanted.state == "stopped")
        return self.stopping or away

    @property
    def paused(self) -> bool:
        wanted = self.driver.wanted.get(self.model.name)
        return wanted is not None and wanted.state == "paused"

    def tick(self) -> None:
        if self.now - self.ticked > SESSION_TIMEOUT / 3:
            self.unsure = True
        self.ticked = self.now
        self.read_mail(0.25)
        assert self.consumer is not None
        self.consumer.poll(0.0)
        self.settle_and_commit()
        if self.unsure:
            self.unsure = not self.commit(list(self.owned.values()))
        self.resolve()
        self.compare_topics()
        self.driver.wake()

    def read_mail(self, timeout: float) -> None:
        item = self.mail.get(timeout)
        while item is not None:
            if isinstance(item, UnitOutcome):
                self.accept(item)
            else:
                self.lose(*item)
            item = self.mail.get(0.0)

    # -- positions -------------------------------------------------------------------------

    def resolve(self) -> None:
        if not self.fresh or self.now < self.hold_until:
            return
        assert self.consumer is not None
        places = sorted(self.fresh)
        try:
            ids = self.s.cluster.topic_ids({name for name, _ in places})
            counts = self.s.cluster.topics()
            bounds = self.s.cluster.watermarks(places)
            committed = self.consumer.committed(places)
            mirrored = self.s.store.mirrored(self.model.name)
            for place in places:
                if place in bounds and place[0] in ids and place in self.fresh:
                    own = self.find(place, ids[place[0]], bounds[place], committed[place], mirrored, counts)
                    if own is not None:
                        self.fresh.discard(place)
                        self.owned[place] = own
        except (Unavailable, CommitRefused):
            self.hold_until = self.now + 0.5

    def find(self, place, topic_id, bounds, committed, mirrored, counts):  # type: ignore[no-untyped-def]  # noqa: PLR0917 - a model
        offset, metadata = committed
        if offset is None and place in mirrored and mirrored[place][0] == topic_id:
            offset, metadata = mirrored[place][1].offset, mirrored[place][1].metadata
        if offset is None:
            now = {found: counts[name] for name, found in self.s.cluster.topic_ids(self.model.topics).items()}
            row = self.s.store.first_start(self.model.name, now, self.s.clock.now_ms())
            begin = bounds[0]
            if self.model.start == "latest" and place[1] < row.topics.get(topic_id, 0):
                part = self.s.world.log.by_id[topic_id].partitions[place[1]]
                begin = max(part.end_at(row.time), part.start)
            own = Own(place, next(self.epochs), topic_id, begin, log_start=bounds[0])
            return own if self.commit([own]) else None
        note = decode(offset, metadata)
        if note.topic_id not in (None, topic_id):
            own = Own(place, next(self.epochs), topic_id, bounds[0], log_start=bounds[0])
            return own if self.commit([own]) else None
        following, pending = note.next_offset, note.pending
        if offset < bounds[0]:
            self.s.store.note(self.model.name, "gap", {"from": offset, "to": bounds[0]})
            following, pending = max(following, bounds[0]), tuple(o for o in pending if o >= bounds[0])
        now, wall = self.now, self.s.clock.time()
        retries = {
            r.offset: (r.attempts, r.first_failed_at, now + min(max(0.0, r.due_at / 1000 - wall), 5.0))
            for r in note.retries
        }
        own = Own(place, next(self.epochs), topic_id, following, pending, retries, bounds[0], offset)
        return own if offset >= bounds[0] or self.commit([own]) else None

    def compare_topics(self) -> None:
        if self.now < self.seen_ids_at + 2.0:
            return
        self.seen_ids_at = self.now
        try:
            ids = self.s.cluster.topic_ids(self.model.topics)
        except Unavailable:
            return
        for place, own in list(self.owned.items()):
            if own.unit is None and ids.get(place[0], own.topic_id) != own.topic_id:
                self.doubt(own)

    def doubt(self, own: Own) -> None:
        self.owned.pop(own.place, None)
        self.fresh.add(own.place)

    # -- plan ------------------------------------------------------------------------------

    def plan(self, lane: str) -> UnitRequest | None:
        steady = self.now - self.ticked < SESSION_TIMEOUT / 3 and not self.unsure
        if self.leaves or self.paused or not steady or self.now < self.hold_until:
            return None
        if any(where == lane for where, _ in self.units.values()):
            return None
        ready = [
            own
            for own in self.owned.values()
            if own.unit is None
            and not own.dirty
            and not own.fenced
            and own.killer is None
            and own.waits_until <= self.now
            and bool(own.suspected) == (lane == ISOLATION)
        ]
        ready = ready[:1] if lane == ISOLATION else ready
        if not ready:
            return None
        unit = next(self.driver.numbers)
        for own in ready:
            own.unit = unit
        self.units[unit] = (lane, [own.place for own in ready])
        most = 1 if lane == ISOLATION else self.model.max_records
        return UnitRequest(
            unit,
            self.model.name,
            self.revision,
            b"",
            [self.assignment(own) for own in ready],
            self.model.window,
            most,
            careful=lane == ISOLATION,
        )

    def assignment(self, own: Own) -> Assignment:
        retries = tuple(
            Retry(offset, attempts, first, max(0.0, due - self.now))
            for offset, (attempts, first, due) in own.retries.items()
        )
        return Assignment(*own.place, own.epoch, own.next, own.pending, retries, own.topic_id, own.log_start)

    # -- outcomes: account, settle, advance, commit ----------------------------------------

    def accept(self, outcome: UnitOutcome) -> None:
        if outcome.status != "done" or outcome.unit not in self.units or outcome.revision != self.revision:
            return
        mistakes = self.driver.mistakes
        wrong = [p for p in outcome.partitions if not adds_up(p, self.owned.get(p.key))]
        if wrong and not mistakes.no_account_check:
            for place in self.units.pop(outcome.unit)[1]:
                if place in self.owned and self.owned[place].unit == outcome.unit:
                    self.owned[place].unit = None
            return
        if outcome.failures and mistakes.commit_before_settle:
            self.advance(outcome)
            self.settle_and_commit()
        self.unsettled.append(outcome)
        self.settle_and_commit()

    def settle_and_commit(self) -> None:
        if self.now < self.hold_until:
            return
        held, self.unsettled = self.unsettled, []
        for outcome in held:
            if self.settle(outcome):
                self.advance(outcome)
            else:
                self.unsettled.append(outcome)
        for own in list(self.owned.values()):
            if own.killer is not None:
                self.bury(own)
        dirty = [own for own in self.owned.values() if own.dirty]
        if dirty and self.commit(dirty):
            for own in dirty:
                own.dirty, own.unit = False, None
            self.driver.mirror(self.model.name, dirty)
            self.driver.wake()

    def settle(self, outcome: UnitOutcome) -> bool:
        parts = {part.key: part for part in outcome.partitions}
        current = [
            failed
            for failed in outcome.failures
            if self.driver.mistakes.no_epoch_check
            or self.is_current(parts[failed.record.topic(), failed.record.partition()])
        ]
        if not current:
            return True
        topics = {part.topic: part.topic_id for part in outcome.partitions}
        return self.record(current, topics)

    def record(self, failures: list[FailedEvent], topics: dict[str, str]) -> bool:
        try:
            self.s.store.record([letter_of(self.model.name, failed, topics) for failed in failures])
        except Unavailable:
            self.hold_until = self.now + 0.5
            return False
        return True

    def is_current(self, part: PartitionOutcome) -> bool:
        own = self.owned.get(part.key)
        return own is not None and own.epoch == part.epoch and own.topic_id == part.topic_id

    def advance(self, outcome: UnitOutcome) -> None:
        self.units.pop(outcome.unit, None)
        mistakes = self.driver.mistakes
        for part in outcome.partitions:
            own = self.owned.get(part.key)
            if own is None or not (self.is_current(part) or mistakes.no_epoch_check):
                continue
            before = (own.next, own.pending, sorted(own.retries))
            own.next = part.next_offset + mistakes.next_offset_off_by_one
            own.pending = () if mistakes.pending_dropped else part.pending
            own.retries = {r.offset: (r.attempts, r.first_failed_at, self.now + r.wait) for r in part.retries}
            own.waits_until = self.now + part.blocked_for if part.blocked_for else 0.0
            own.suspected = {offset for offset in own.suspected if offset >= own.next or offset in own.pending}
            if outcome.halt is not None:
                own.waits_until = self.now + 0.5
            if before != (own.next, own.pending, sorted(own.retries)):
                own.dirty = True
            else:
                own.unit = None
            if part.out_of_range or part.gone:
                self.doubt(own)

    def commit(self, owns: list[Own]) -> bool:
        assert self.consumer is not None
        commits = {own.place: self.commit_of(own) for own in owns if (own.committed or 0) <= own.position}
        if not commits:
            return True
        try:
            self.consumer.commit(commits)
        except CommitRefused:
            self.hold_until = self.now + 0.3
            return False
        for own in owns:
            if own.place in commits:
                own.committed = commits[own.place].offset
        return True

    def commit_of(self, own: Own) -> Commit:
        now, wall = self.now, self.s.clock.time()
        retries = [
            OpenRetry(offset, attempts, first, int((wall + due - now) * 1000))
            for offset, (attempts, first, due) in own.retries.items()
            if offset in own.pending or offset >= own.next
        ]
        return Commit(own.position, encode(own.topic_id, own.position, own.next, own.pending, retries))

    # -- deaths ----------------------------------------------------------------------------

    def lose(self, units: set[int], suspects: dict[int, list[InFlight]] | None, stage: str | None) -> None:
        for unit in units & set(self.units):
            lane, places = self.units.pop(unit)
            for own in [self.owned[place] for place in places if place in self.owned]:
                if own.unit != unit or own.dirty:
                    continue
                own.unit = None
                at = {
                    offset
                    for flight in (suspects or {}).get(unit, ())
                    if places[flight.index] == own.place
                    for offset in range(flight.first, flight.end)
                }
                if at and self.driver.mistakes.in_flight_trusted_as_done:
                    own.next = max(own.next, max(at) + 1)
                    own.dirty = True
                elif stage is not None and lane == ISOLATION and len(at) == 1 and at <= own.suspected:
                    own.killer = min(at)
                elif stage is not None:
                    own.suspected |= at

    def bury(self, own: Own) -> None:
        """The event that killed its worker alone becomes a dead letter."""
        offset, world = own.killer, self.s.world
        assert offset is not None
        record = world.log.by_id[own.topic_id].partitions[own.place[1]].ever[offset].record
        key = (self.model.name, own.topic_id, own.place[1])
        in_store = self.model.kind == "work order"
        try:
            if self.model.kind in WITH_CURSOR:
                cursor = world.target.cursor(self.s.process, key, in_store=in_store)
                if (cursor or own.next) > offset:
                    own.killer, own.suspected = None, set()
                    return
        except Unavailable:
            self.hold_until = self.now + 0.5
            return
        failed = FailedEvent(record, failure_of(self.s.clock.now_ms()))
        if not self.record([failed], {own.place[0]: own.topic_id}):
            return
        if self.model.kind in WITH_CURSOR:
            try:
                world.target.write(self.s.process, key, cursor, offset + 1, [], {}, in_store=in_store)
            except (Unavailable, Fenced):
                self.hold_until = self.now + 0.5
                return
        own.killer, own.suspected = None, set()
        if self.model.kind in WITH_CURSOR:
            # The next unit finds the cursor ahead, and reports what an outcome that was lost had said.
            return
        if offset >= own.next:
            own.pending, own.next = tuple(sorted({*own.pending, *range(own.next, offset)})), offset + 1
        else:
            own.pending = tuple(o for o in own.pending if o != offset)
        own.retries.pop(offset, None)
        own.dirty = True

    # -- revocations -----------------------------------------------------------------------

    def drain(self, places: list[Place]) -> None:
        for place in places:
            if place in self.owned:
                self.owned[place].fenced = True
        end = self.now + self.model.drain_timeout
        while self.under(places) or any(self.owned[p].dirty for p in places if p in self.owned):
            if self.now >= end:
                lanes = {self.units[unit][0] for unit in self.under(places)}
                for lane in lanes:
                    self.driver.cancel(lane)
                return
            self.read_mail(0.25)
            self.settle_and_commit()
        if self.model.kind == "deferred":
            self.s.world.judge.deaths("the model does not wait for acknowledgements", self.model.name)

    def under(self, places: list[Place]) -> set[int]:
        held = {self.owned[place].unit for place in places if place in self.owned}
        return {unit for unit in self.units if unit in held}

    def stop_units(self, places: list[Place]) -> None:
        for unit in self.under(places):
            self.s.backend.stop_units(self.units[unit][0], {unit})

    def drop(self, places: list[Place]) -> None:
        for place in places:
            self.owned.pop(place, None)
            self.fresh.discard(place)


class ModelDriver:
    """One instance."""

    def __init__(self, seams: Seams, mistakes: Mistakes) -> None:
        self.seams, self.mistakes = seams, mistakes
        self.numbers = itertools.count(1)
        self.wanted: dict[str, object] = {}
        self.runners: list[Runner] = []
        self.old: list[Runner] = []
        self.work = seams.threads.condition()
        self.cancelled: set[str] = set()
        self.overdue: dict[str, float] = {}
        self.stopping = False

    def start(self) -> None:
        self.refresh()
        for lane in (SHARED, ISOLATION):
            self.seams.threads.start(f"lane-{lane}", lambda lane=lane: self.serve(lane), owner="", ends="")
        self.seams.threads.start("control", self.control, owner="", ends="")
        for model in self.seams.models.values():
            self.add(model, 1)

    def add(self, model: PipelineModel, revision: int) -> None:
        runner = Runner(self, model, revision)
        self.runners = [*self.runners, runner]
        self.seams.threads.start(f"runner-{model.name}", runner.run, owner="", ends="")

    def reload(self, pipeline: str) -> None:
        for runner in [runner for runner in self.runners if runner.model.name == pipeline]:
            runner.stopping = True
            runner.mail.put(None)
            runner.ended.wait()
            self.runners = [other for other in self.runners if other is not runner]
            if not self.stopping:
                self.add(runner.model, runner.revision + 1)

    def stop(self) -> None:
        self.stopping = True
        for runner in self.runners:
            runner.stopping = True
            runner.mail.put(None)
        for runner in list(self.runners):
            runner.ended.wait(20.0)

    def control(self) -> None:
        while True:
            self.seams.clock.sleep(0.5)
            self.refresh()
            for lane, at in list(self.overdue.items()):
                if self.seams.clock.monotonic() > at:
                    self.overdue.pop(lane, None)
                    process = self.seams.backend.current_process(lane)
                    if process is not None:
                        self.seams.backend.end_process(process)

    def refresh(self) -> None:
        try:
            self.wanted = dict(self.seams.store.wanted())
        except Unavailable:
            return

    def mirror(self, group: str, owns: list[Own]) -> None:
        rows = {own.place: (own.topic_id, Commit(own.committed or 0, "")) for own in owns}
        try:
            self.seams.store.mirror(group, rows)
        except Unavailable:
            return

    def wake(self) -> None:
        with self.work:
            self.work.notify_all()

    def cancel(self, lane: str) -> None:
        self.cancelled.add(lane)
        process = self.seams.backend.current_process(lane)
        if process is not None:
            self.seams.backend.end_process(process)

    def serve(self, lane: str) -> None:
        detached: set[int] = set()
        while True:
            with self.work:
                units = self.plan(lane) if lane == SHARED or not detached else []
                if not units and not detached:
                    self.work.wait(0.5)
                    continue
            now, backend = self.seams.clock.monotonic(), self.seams.backend
            seconds = max([unit.seconds for unit in units], default=0.5)
            request = WindowRequest(lane, seconds, units, detach=True, not_after=now + SESSION_TIMEOUT * 2 / 3)
            self.overdue[lane] = now + seconds + 5.0
            try:
                outcome = backend.run(request)
            except WindowLost:
                lost = {unit.unit for unit in units} | detached
                suspects = backend.read_in_flight(lane)
                stage = None if lane in self.cancelled else "crash"
                self.cancelled.discard(lane)
                for runner in self.runners:
                    runner.mail.put((lost, suspects, stage))
                detached = set()
            else:
                detached = set(outcome.running)
                for runner in self.runners:
                    for unit in outcome.units:
                        if unit.pipeline == runner.model.name:
                            runner.mail.put(unit)
                if outcome.tainted and not detached:
                    self.cancelled.add(lane)
                    process = backend.current_process(lane)
                    if process is not None:
                        backend.end_process(process)
                    self.cancelled.discard(lane)
            finally:
                self.overdue.pop(lane, None)

    def plan(self, lane: str) -> list[UnitRequest]:
        found = []
        for runner in self.runners:
            unit = runner.plan(lane)
            if unit is not None:
                found.append(unit)
                if lane == ISOLATION:
                    break
        return found


def adds_up(part: PartitionOutcome, own: Own | None) -> bool:
    """L2: what was taken over and read is what ended and what is pending."""
    a = part.account
    return (
        a.taken_over + a.read == a.acted + a.filtered + a.failed + a.missing + len(part.pending)
        and part.next_offset >= a.began_at
    )


def failure_of(now_ms: int) -> Failure:
    return Failure(
        stage="crash",
        error_code="crash",
        error_class="",
        error="the worker died",
        traceback="",
        fingerprint="crash",
        attempts=1,
        first_failed_at=now_ms,
        last_failed_at=now_ms,
    )


def letter_of(pipeline: str, failed: FailedEvent, topics: dict[str, str]) -> DeadLetter:
    record = failed.record
    return DeadLetter(
        pipeline=pipeline,
        spec_version="1",
        group=pipeline,
        topic=record.topic(),
        topic_id=topics[record.topic()],
        partition=record.partition(),
        offset=record.offset(),
        key=record.key(),
        value=record.value(),
        headers=record.headers() or [],
        timestamp=record.timestamp()[1],
        timestamp_type=record.timestamp()[0],
        failure=failed.failure,
    )


def model_driver(mistakes: Mistakes = Mistakes()):  # type: ignore[no-untyped-def]  # noqa: B008 - frozen
    """Makes model drivers with these mistakes."""
    return lambda seams: ModelDriver(seams, mistakes)
