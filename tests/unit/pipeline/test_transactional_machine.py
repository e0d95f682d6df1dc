"""I5 and I1 as a machine: the transactional executor over SQLite with two owners, and everything that can go wrong
between any two steps. The rows and failures of the database are the topic, and no failure is settled that is no dead
letter."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.clock import Clock
from penstock.core.event import Record
from penstock.pipeline.messages import Assignment, FailedEvent, PartitionOutcome
from penstock.tables import action as action_module
from penstock.tables.errors import TargetUnavailable
from tests.unit.pipeline.table_unit import KEY, Worker, record

GOOD, REFUSED, FILTERED, UNREADABLE = "good", "refused", "filtered", "unreadable"
KINDS = st.sampled_from((GOOD, GOOD, GOOD, REFUSED, FILTERED, UNREADABLE))
FATES = st.sampled_from(("accepted", "accepted", "accepted", "raised", "rejected", "lost", "settled"))
_POINTS = ("before-rows", "before-transaction-commit", "after-transaction-commit")
_FAULTS = st.sampled_from([None] * 6 + [(point, how) for point in _POINTS for how in ("kill", "cut")])
_WHICH = st.sampled_from((0, 1))
_COUNTS = st.lists(st.integers(1, 8), min_size=1, max_size=3)


class _Killed(BaseException):
    """The process ends here."""


@dataclass
class Topic:
    """One topic of the name; the next one has another id."""

    number: int
    kinds: list[str] = field(default_factory=list)
    log_start: int = 0
    committed: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that were not read: the cursor was moved over them, or began behind them."""

    @property
    def id(self) -> str:
        return f"id-{self.number}"

    def row(self, offset: int) -> int:
        return self.number * 1_000 + offset

    def record(self, offset: int) -> Record:
        kind = self.kinds[offset]
        values = {
            GOOD: b'{"id": %d, "keep": true}' % self.row(offset),
            REFUSED: b'{"id": "none", "keep": true}',
            FILTERED: b'{"id": 0, "keep": false}',
            UNREADABLE: b"{",
        }
        return record(offset, values[kind])

    def of_kind(self, begin: int, end: int, *kinds: str) -> set[int]:
        return {offset for offset in range(begin, end) if self.kinds[offset] in kinds}


class Owner:
    """An instance with its worker process; the driver's part of it is what the test plays."""

    def __init__(self, url: str, clock: Clock, topic_id: Callable[[], str]) -> None:
        self.url, self.clock, self._topic_id = url, clock, topic_id
        self.worker = self._started()
        self.epoch = 0
        self.topic: Topic | None = None
        """The topic that it believes to own a partition of."""
        self.position = 0
        self.reads_at: int | None = None
        """Where the unit reads; None: no unit runs."""

    def _started(self) -> Worker:
        worker = Worker(self.url, self.clock)
        # The cluster answers for the topic that has the name now.
        worker.executor._topics = self  # type: ignore[assignment]  # it has `ask`
        return worker

    def ask(self, _topic: str) -> Callable[[], str]:
        return self._topic_id

    def restart(self) -> None:
        """Another process."""
        self.worker.close()
        self.worker = self._started()
        self.reads_at = None


class Transactional(RuleBasedStateMachine):
    @initialize(kinds=st.lists(KINDS, min_size=6, max_size=20))
    def start(self, kinds: list[str]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "target.db"
        self.now = 0.0
        self.clock = Clock(monotonic=lambda: self.now, time=lambda: self.now)
        self.epochs = 0
        self.topics = [Topic(1, kinds)]
        self.copy: Path | None = None
        self.letters: set[tuple[str, int]] = set()
        self.fault: tuple[str, str] | None = None
        """At this point of the next transaction the process dies, or its connection: then the result is unknown."""
        self.owners = [Owner(f"sqlite:///{self.path}", self.clock, lambda: self.topic.id) for _ in range(2)]
        self.assign(0)
        self.assign(1)

    @property
    def topic(self) -> Topic:
        return self.topics[-1]

    # -- the topic -------------------------------------------------------------------------

    @rule(
        what=st.sampled_from(("delete_records", "create_again", "back_up", "restore", "restore", "kill", "wait")),
        which=_WHICH,
        share=st.floats(0, 0.6),
        kinds=st.lists(KINDS, min_size=5, max_size=40),
    )
    def disturb(self, what: str, which: int, share: float, kinds: list[str]) -> None:
        """One rule for what is rare: rules are chosen with equal weight."""
        arguments = {"delete_records": (share,), "create_again": (kinds,), "kill": (which,), "wait": (30.0,)}
        getattr(self, what)(*arguments.get(what, ()))

    @rule(kinds=st.lists(KINDS, min_size=4, max_size=12))
    def produce(self, kinds: list[str]) -> None:
        self.topic.kinds += kinds

    def delete_records(self, share: float) -> None:
        """Retention, which does not ask how far anybody has read."""
        self.topic.log_start = max(self.topic.log_start, int(share * len(self.topic.kinds)))

    def create_again(self, kinds: list[str]) -> None:
        if len(self.topics) < 3:
            self.topics.append(Topic(self.topic.number + 1, kinds))

    # -- the group -------------------------------------------------------------------------

    @rule(which=_WHICH)
    def assign(self, which: int) -> None:
        """A rebalance: the other one has not heard of it yet, and may be in the middle of a unit."""
        owner = self.owners[which]
        self.epochs += 1
        owner.epoch, owner.topic = self.epochs, self.topic
        owner.position = max(self.topic.committed, self.topic.log_start)
        owner.reads_at = None

    def kill(self, which: int) -> None:
        self.owners[which].restart()

    def wait(self, seconds: float) -> None:
        self.now += seconds

    # -- the database ----------------------------------------------------------------------

    def back_up(self) -> None:
        self.copy = self.path.with_name("copy.db")
        self._copy(self.path, self.copy)

    def restore(self) -> None:
        if self.copy is not None:
            event("an older copy is restored")
            self._copy(self.copy, self.path)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        read, write = sqlite3.connect(source), sqlite3.connect(target)
        read.backup(write)
        read.close()
        write.close()

    @contextmanager
    def faults(self, owner: Owner) -> Iterator[None]:
        def reach(name: str) -> None:
            if self.fault is not None and self.fault[0] == name:
                kills, self.fault = self.fault[1] == "kill", None
                event(f"{'killed' if kills else 'cut off'} {name}")
                raise _Killed if kills else TargetUnavailable("the connection is lost")

        with mock.patch.object(action_module, "reach", reach):
            try:
                yield
            except _Killed:
                owner.restart()

    # -- units -----------------------------------------------------------------------------

    @rule(which=_WHICH, counts=_COUNTS, fault=_FAULTS, fate=FATES, goes_on=st.booleans())
    def unit(self, which: int, counts: list[int], fault: tuple[str, str] | None, fate: str, *, goes_on: bool) -> None:
        """A whole one, or one that goes on; the rules below are its steps, between which anything may happen."""
        owner = self.owners[which]
        if owner.topic is not self.topic and owner.reads_at is None:
            self.assign(which)
        if owner.reads_at is None:
            self.begin(which)
        self.fault = fault
        for count in counts:
            self.read(which, count)
            self.now += 0.1
            self.write(which, "wake")
        if not goes_on:
            self.finish(which, fate)
        self.fault = None

    @rule(which=_WHICH, counts=_COUNTS, fault=_FAULTS, fate=FATES, goes_on=st.booleans())
    def another_unit(
        self, which: int, counts: list[int], fault: tuple[str, str] | None, fate: str, *, goes_on: bool
    ) -> None:
        """The same once more, for its weight."""
        self.unit(which, counts, fault, fate, goes_on=goes_on)

    @rule(which=_WHICH)
    def begin(self, which: int) -> None:
        owner = self.owners[which]
        if owner.topic is None:
            return
        log_start = owner.topic.log_start if owner.topic is self.topic else 0
        a = Assignment(*KEY, owner.epoch, max(owner.position, log_start), topic_id=owner.topic.id, log_start=log_start)
        with self.faults(owner):
            is_new = owner.topic.id not in owner.worker.cursors
            (start,) = owner.worker.begin(a)
            owner.reads_at = start
            if is_new and start:
                # The group's offset counts where the database knows nothing, also after a restore of so old a copy.
                owner.topic.gaps.append((0, start))
            if gap := owner.worker.executor.cursor_gaps.get(KEY):
                event("the cursor was below the log's start")
                owner.topic.gaps.append(gap)

    @rule(which=_WHICH, count=st.integers(1, 8))
    def read(self, which: int, count: int) -> None:
        owner = self.owners[which]
        if owner.reads_at is None or owner.topic is None or owner.worker.tally.full:
            return
        if not self.topic.log_start <= owner.reads_at < len(self.topic.kinds):
            return  # out of range, or the end
        end = min(len(self.topic.kinds), owner.reads_at + count)
        with self.faults(owner):
            owner.worker.feed(self.topic.record(offset) for offset in range(owner.reads_at, end))
            owner.reads_at = end

    @rule(which=_WHICH, step=st.sampled_from(("wake", "wait_idle")))
    def write(self, which: int, step: str) -> None:
        owner = self.owners[which]
        if owner.reads_at is not None:
            with self.faults(owner):
                getattr(owner.worker.executor, step)()

    @rule(
        which=_WHICH,
        fate=st.sampled_from(("accepted", "accepted", "accepted", "raised", "rejected", "lost", "settled")),
    )
    def finish(self, which: int, fate: str) -> None:
        """The unit ends. `settled`: the driver dies before it commits; `raised`: the unit has no outcome of its own."""
        owner = self.owners[which]
        if owner.reads_at is None or owner.topic is None:
            return
        with self.faults(owner):
            worker = owner.worker
            worker.executor.finish()
            began_at, cursor = worker.starts[KEY], worker.executor.cursor(KEY)
            assert began_at is not None
            assert cursor is not None
            self._adds_up(owner, began_at, cursor)
            owner.reads_at = None
            if fate == "raised":
                return
            worker.executor.reported([PartitionOutcome(*KEY, owner.epoch, cursor)])
            self._deliver(owner, fate, cursor, list(worker.tally.failures))

    def _adds_up(self, owner: Owner, began_at: int, cursor: int) -> None:
        """L2: everything up to the new cursor is counted, once, by the unit that moved it there."""
        assert owner.topic is not None
        acted, failed = owner.worker.counts(KEY)
        assert acted == len(owner.topic.of_kind(began_at, cursor, GOOD))
        assert failed == len(owner.topic.of_kind(began_at, cursor, REFUSED, UNREADABLE))

    def _deliver(self, owner: Owner, fate: str, next_offset: int, failures: list[FailedEvent]) -> None:
        topic = owner.topic
        assert topic is not None
        if owner.epoch != self.epochs:
            return  # a former owner's outcome is dropped
        if fate in ("accepted", "settled"):
            self.letters |= {(topic.id, each.record.offset()) for each in failures}
        if fate == "accepted":
            owner.position = topic.committed = next_offset
        elif fate == "rejected":
            self.assign(self.owners.index(owner))
        else:
            owner.restart()
            self.assign(self.owners.index(owner))

    # -- what must be true -----------------------------------------------------------------

    @invariant()
    def the_database_is_the_topic(self) -> None:
        if not hasattr(self, "owners"):
            return
        rows, cursors, failures = self._contents()
        wanted: Counter[int] = Counter()
        for topic in self.topics:
            end = cursors.get(topic.id, 0)
            passed = [offset for offset in range(end) if not self._was_gone(topic, offset)]
            good = {topic.row(offset) for offset in passed if topic.kinds[offset] == GOOD}
            gone = {topic.row(offset) for offset in range(end)} - {topic.row(offset) for offset in passed}
            wanted.update(good)
            # A row in a gap was written before the log's start moved, by the copy that is restored now, or not at all.
            wanted.update(gone & set(rows))
            bad = {offset for offset in passed if topic.kinds[offset] in (REFUSED, UNREADABLE)}
            assert bad <= set(failures.get(topic.id, {})), "every failure below the cursor is noted"
            assert all(offset < end for offset in failures.get(topic.id, {}))
        assert rows == wanted

    def _was_gone(self, topic: Topic, offset: int) -> bool:
        return any(begin <= offset < end for begin, end in topic.gaps)

    @invariant()
    def what_is_settled_is_a_dead_letter(self) -> None:
        if hasattr(self, "owners"):
            _, _, failures = self._contents()
            settled = {(t, o) for t, states in failures.items() for o, state in states.items() if state == "settled"}
            assert settled <= self.letters

    def _contents(self) -> tuple[Counter[int], dict[str, int], dict[str, dict[int, str]]]:
        worker = self.owners[0].worker
        failures: dict[str, dict[int, str]] = {}
        for topic_id, offset, state in worker.query('SELECT topic_id, "offset", state FROM penstock_failures'):
            failures.setdefault(topic_id, {})[offset] = state
        return Counter(worker.rows), worker.cursors, failures

    def teardown(self) -> None:
        if not hasattr(self, "owners"):
            return
        try:
            self._drain()
        finally:
            for owner in self.owners:
                owner.worker.close()
            self.folder.cleanup()

    def _drain(self) -> None:
        """Faults end: the owner reads to the end, and every event is a row, a dead letter, filtered or gone."""
        self.fault = None
        self.now += 60.0
        self.assign(0)
        for _ in range(8):
            self.begin(0)
            self.read(0, 1_000)
            self.finish(0, "accepted")
            self.now += 60.0
        rows, cursors, _ = self._contents()
        topic = self.topic
        assert cursors[topic.id] == max(len(topic.kinds), topic.log_start)
        for offset, kind in enumerate(topic.kinds):
            if kind == GOOD:
                assert rows[topic.row(offset)] == 1 or self._was_gone(topic, offset)
            elif kind != FILTERED:
                assert (topic.id, offset) in self.letters or self._was_gone(topic, offset)
        self.the_database_is_the_topic()
        self.what_is_settled_is_a_dead_letter()


TestTransactional = Transactional.TestCase
TestTransactional.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
