"""The judge: sees every act, row, dead letter and commit when it happens, and finds each breach of a promise.

- I1, at each commit: everything below it (and everything its metadata calls finished) is done, filtered, a durable dead
  letter, or no longer in the log.
- I2, at each commit: not below the one before, unless the operator has reset the offsets.
- I3, at each dead letter: bytes, key, headers and timestamp are the record's.
- I4, when an act begins: nothing before it in its order is unfinished, and no act of a former unit follows one of its
  successor.
- I5, at each row: the first for this event; at the end: rows and dead letters are the topic.
- I6 and I9, at each dead letter: the event can fail by its nature; outages and deaths of others make none.
- I7, at the end: everything is committed.
- I10, at each act that is repeated: at most one window per partition for each death, none without one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.core.commit_metadata import decode
from penstock.core.dead_letter import DeadLetter
from penstock.kafka.group_consumer import Commit
from tests.simulation.log import CAN_FAIL, LogRecord, PartitionLog

if TYPE_CHECKING:
    from tests.simulation.units import Part
    from tests.simulation.world import PipelineModel, World

Place = tuple[str, int]
Key = tuple[str, str, int]
"""Pipeline, topic id, partition."""
WITH_CURSOR = ("table", "work order")


@dataclass(frozen=True, slots=True)
class Finding:
    promise: str
    text: str
    time: float

    def __str__(self) -> str:
        return f"{self.promise} at {self.time:.3f}: {self.text}"


@dataclass(slots=True)
class Order:
    """What must be acted on one after the other: a partition, or a key of it."""

    highest: int = -1
    open: set[int] = field(default_factory=set)
    """Begun, neither done nor failed."""


@dataclass(slots=True)
class Course:
    """Everything that has happened to one partition of one pipeline."""

    begin: int = 0
    """Events below are not the pipeline's matter."""
    committed: int | None = None
    checked: int = 0
    """Everything below was found finished at a commit."""
    begun: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    deferred: set[int] = field(default_factory=set)
    """Acted on, and not acknowledged yet."""
    orders: dict[bytes, Order] = field(default_factory=lambda: defaultdict(Order))
    unit: tuple[str, int] | None = None
    """Worker and number of the unit whose act began last."""
    former: set[tuple[str, int]] = field(default_factory=set)
    repeats: int = 0
    resets: int = 0


class Judge:
    def __init__(self, world: World) -> None:
        self._world = world
        self.findings: list[Finding] = []
        self.courses: dict[Key, Course] = defaultdict(Course)
        self.death_count: Counter[str] = Counter()
        self.first_joins: dict[tuple[str, str], float] = {}
        """By group and topic id: when an instance was first given a partition of it."""
        self.acts = 0

    def find(self, promise: str, text: str) -> None:
        if len(self.findings) < 20:
            self.findings.append(Finding(promise, text, self._world.now))
        self._world.note(f"FOUND {promise}: {text}")

    # -- faults that allow repeats ---------------------------------------------------------

    def deaths(self, what: str, *pipelines: str) -> None:
        """Something died; the window of these pipelines (none: of all) may be repeated."""
        for name in pipelines or self._world.models:
            self.death_count[name] += 1

    def reset(self, pipeline: str, topic_id: str, partition: int, offset: int) -> None:
        """The operator has moved the position: from there on everything is as if it had never been."""
        course = self.courses[pipeline, topic_id, partition]
        course.committed, course.checked, course.begin = None, offset, offset
        course.begun = {at for at in course.begun if at < offset}
        course.done = {at for at in course.done if at < offset}
        course.deferred = {at for at in course.deferred if at < offset}
        course.orders.clear()
        course.resets += 1

    def begins_anew(self, model: PipelineModel) -> None:
        """A stateless pipeline that was stopped on request applies its start policy again."""
        if model.stateless:
            for key in [key for key in self.courses if key[0].startswith(f"{model.name}@")]:
                del self.courses[key]

    # -- acts ------------------------------------------------------------------------------

    def _course(self, part: Part) -> Course:
        """A stateless pipeline has a course of its own in each instance, for each revision."""
        name = part.model.name
        if part.model.stateless:
            name = f"{name}@{part.worker.backend.process}/{part.unit.request.revision}"
        return self.courses[name, part.a.topic_id, part.a.partition]

    def act_begins(self, part: Part, records: list[LogRecord]) -> None:
        course, model = self._course(part), part.model
        self.acts += len(records)
        who = (str(part.worker.process), part.unit.request.unit)
        where = f"{model.name} {part.a.topic}/{part.a.partition}"
        if self._world.trace:
            offsets = [record.record.offset() for record in records]
            self._world.note(f"{who[0]} unit {who[1]} acts on {where} {offsets}")
        if who in course.former:
            self.find("I4", f"{where}: {who} begins an act after {course.unit} has begun one")
        elif course.unit != who:
            if course.unit is not None:
                course.former.add(course.unit)
            course.unit = who
        together = {record.record.offset() for record in records}
        opened = {strand: order.open - together for strand, order in course.orders.items()}
        for record in records:
            self._begin_one(course, model, part, record, opened, where)

    def _begin_one(  # noqa: PLR0917 - one step of `act_begins`
        self,
        course: Course,
        model: PipelineModel,
        part: Part,
        record: LogRecord,
        opened: dict[bytes, set[int]],
        where: str,
    ) -> None:
        offset = record.record.offset()
        strand = record.key if model.kind == "keyed" else b""
        order = course.orders[strand]
        letters = self._world.store.letters
        key = (model.name, part.a.topic_id, part.a.partition)
        if offset < course.begin:
            self.find("I1", f"{where}: {offset} is acted on, the pipeline begins at {course.begin}")
        for at in sorted(opened.get(strand, ())):
            if at < offset and at in part.log.records and (*key, at) not in letters:
                self.find("I4", f"{where}: {offset} is acted on while {at} is not finished")
        if offset < order.highest and offset not in course.begun:
            self.find("I4", f"{where}: {offset} is acted on for the first time after {order.highest}")
        if offset in course.done or offset in course.deferred:
            course.repeats += 1
            allowed = self.death_count[model.name] * model.repeats_per_death
            if course.repeats > allowed:
                self.find("I10", f"{where}: {course.repeats} acts repeated, {allowed} are allowed ({offset})")
        course.begun.add(offset)
        order.open.add(offset)
        order.highest = max(order.highest, offset)

    def act_ended(self, part: Part, record: LogRecord) -> None:
        """The act is over, well or not; what is to be tried again is still open and does not come here."""
        strand = record.key if part.model.kind == "keyed" else b""
        course = self._course(part)
        course.orders[strand].open.discard(record.record.offset())

    def act_deferred(self, part: Part, record: LogRecord) -> None:
        """The act is over, and its event is done when it is acknowledged."""
        self._course(part).deferred.add(record.record.offset())
        self.act_ended(part, record)

    def act_done(self, part: Part, record: LogRecord) -> None:
        course = self._course(part)
        course.done.add(record.record.offset())
        course.deferred.discard(record.record.offset())
        self.act_ended(part, record)

    # -- rows and dead letters -------------------------------------------------------------

    def row(self, pipeline: str, topic_id: str, partition: int, offset: int) -> None:
        course = self.courses[pipeline, topic_id, partition]
        self.acts += 1
        self.courses[pipeline, topic_id, partition].done.add(offset)
        count = self._world.target.rows[pipeline, topic_id, partition, offset]
        if count > 1 + course.resets:
            self.find("I5", f"{pipeline} {topic_id}/{partition}@{offset} has {count} rows")

    def dead_letter(self, letter: DeadLetter, by: str) -> None:
        topic = self._world.log.by_id.get(letter.topic_id)
        where = f"{letter.pipeline} {letter.topic}/{letter.partition}@{letter.offset}"
        if self._world.trace:
            self._world.note(f"{by}: dead letter {where} stage {letter.failure.stage}")
        if topic is None or letter.partition >= len(topic.partitions):
            self.find("I3", f"{where}: a dead letter of topic id {letter.topic_id!r}, which has no such partition")
            return
        found = topic.partitions[letter.partition].ever.get(letter.offset)
        if found is None:
            self.find("I3", f"{where}: a dead letter of a record that never was")
            return
        record = found.record
        same = (letter.key, letter.value, list(letter.headers), letter.timestamp) == (
            record.key(),
            record.value(),
            list(record.headers() or ()),
            record.timestamp()[1],
        )
        if not same:
            self.find("I3", f"{where}: key, value, headers or timestamp are not the record's")
        if found.nature not in CAN_FAIL:
            self.find("I6", f"{where}: a {found.nature} event became a dead letter, stage {letter.failure.stage}")
        if letter.failure.stage == "crash":
            self._world.situations.reach("killer dead-lettered")

    # -- commits ---------------------------------------------------------------------------

    def assigned(self, group: str, places: list[Place], by: str) -> None:
        for name, _ in places:
            if (topic := self._world.log.topics.get(name)) is not None:
                self.first_joins.setdefault((group, topic.id), self._world.now)

    def committed(self, group: str, place: Place, commit: Commit, by: str) -> None:
        note = decode(commit.offset, commit.metadata)
        current = self._world.log.topics[place[0]]
        topic = self._world.log.by_id.get(note.topic_id or current.id, current)
        model = self._world.models[group]
        where = f"{group} {place[0]}/{place[1]}"
        if self._world.trace:
            self._world.note(f"{by}: commit {where} {commit.offset} next {note.next_offset} pending {note.pending}")
        if place[1] >= len(topic.partitions):
            return
        part, course = topic.partitions[place[1]], self.courses[group, topic.id, place[1]]
        if course.committed is None and not course.resets:
            self._first(course, model, topic.id, place, part, commit.offset)
        if course.committed is not None and commit.offset < course.committed:
            self.find("I2", f"{where}: committed {course.committed}, then {commit.offset} by {by}")
        course.committed = commit.offset
        pending = set(note.pending)
        for offset in range(course.checked, max(commit.offset, note.next_offset)):
            if offset not in pending and not self._finished(course, (group, topic.id, place[1]), part, offset):
                nature = part.ever[offset].nature
                self.find("I1", f"{where}: {by} commits {commit.offset} while {offset} ({nature}) is not finished")
                break
        course.checked = max(course.checked, commit.offset)

    def _first(  # noqa: PLR0917 - one step of `committed`
        self, course: Course, model: PipelineModel, topic_id: str, place: Place, part: PartitionLog, offset: int
    ) -> None:
        """The start position: `latest` counts for what was there at the group's first start, as the store has it."""
        row = self._world.store.first_starts.get(model.name)
        if model.start == "latest" and row is not None and place[1] < row.topics.get(topic_id, 0):
            course.begin = course.checked = offset
            joined = min([row.time, *(at for (group, _), at in self.first_joins.items() if group == model.name)])
            if offset < part.end_at(joined - 0.001):
                self.find("I1", f"{model.name} {place}: begins at {offset}, where `latest` was {part.end_at(joined)}")
            skipped = part.next_record(part.end_at(row.time))
            if skipped is not None and skipped.record.offset() < offset:
                self.find("I1", f"{model.name} {place}: begins at {offset}, `latest` at the first start was below")

    def _finished(self, course: Course, key: Key, part: PartitionLog, offset: int) -> bool:
        record = part.records.get(offset)
        return (
            record is None
            or record.nature == "filtered"
            or offset < course.begin
            or offset in course.done
            or (*key, offset) in self._world.store.letters
        )

    # -- the end ---------------------------------------------------------------------------

    def unfinished(self) -> Iterator[str]:
        """Partitions that are not committed to their end."""
        for model in self._world.models.values():
            group = self._world.groups.get(model.name)
            for name in model.topics:
                topic = self._world.log.topics[name]
                for number, part in enumerate(topic.partitions):
                    commit = group.offsets.get((name, number)) if group is not None else None
                    note = decode(commit.offset, commit.metadata) if commit is not None else None
                    if model.stateless:
                        continue
                    ids = note is not None and note.topic_id in (None, topic.id)
                    # Markers and aborted records behind the last one are nothing to do.
                    if commit is None or not ids or part.next_record(commit.offset) is not None:
                        at = None if commit is None else commit.offset
                        yield f"{model.name} {name}/{number}: the end is {part.stable_end}, committed is {at}"

    def progress(self) -> object:
        """Changes as long as anything moves on: commits, dead letters, attempts."""
        world = self._world
        commits = sum(commit.offset for group in world.groups.values() for commit in group.offsets.values())
        return commits, len(world.store.letters), sum(world.attempts.values())

    def at_the_end(self, *, caught_up: bool) -> None:
        if not caught_up:
            for text in self.unfinished():
                self.find("I7", f"stands still: {text}")
        for model in self._world.models.values():
            for name in model.topics:
                topic = self._world.log.topics[name]
                for number, part in enumerate(topic.partitions):
                    key = (model.name, topic.id, number)
                    if model.kind in WITH_CURSOR and caught_up:
                        self._rows(key, part)
                    elif caught_up and not model.stateless:
                        self._lost(key, part)

    def _lost(self, key: Key, part: PartitionLog) -> None:
        course = self.courses[key]
        lost = [offset for offset in part.records if not self._finished(course, key, part, offset)]
        if lost:
            self.find("I1", f"{key}: lost {lost[:10]}")

    def _rows(self, key: Key, part: PartitionLog) -> None:
        """I5: rows and dead letters are the topic."""
        course = self.courses[key]
        for offset, record in part.records.items():
            rows = self._world.target.rows[(*key, offset)]
            letter = (*key, offset) in self._world.store.letters
            expected = record.nature not in CAN_FAIL and record.nature != "filtered"
            if offset >= course.begin and expected and rows < 1:
                self.find("I5", f"{key}@{offset} has no row")
            if record.nature in CAN_FAIL and not letter and offset >= course.begin:
                self.find("I9", f"{key}@{offset} ({record.nature}) has no dead letter")
            if rows and not expected:
                self.find("I5", f"{key}@{offset} ({record.nature}) has a row")
