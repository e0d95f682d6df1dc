"""The driver's neighbours, faked: a clock that is set by hand, a dispatcher that notes what it is asked, a cluster, a
store and a group consumer in memory. With them a runner can be stepped through in milliseconds, without threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from penstock.config.spec import PipelineSpec
from penstock.core.clock import Clock
from penstock.core.dead_letter import DeadLetter, Failure
from penstock.core.errors import Unavailable
from penstock.core.event import Record
from penstock.core.metrics import Metrics
from penstock.core.threads import Mailbox, Threads
from penstock.engine.desired_state import DesiredState
from penstock.engine.pipelines.activity import IdlePolicy
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.engine.taps import Taps
from penstock.kafka.admin import Watermarks
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import Commit, CommitRefused
from penstock.pipeline.messages import (
    Account,
    Assignment,
    Blueprint,
    Counts,
    FailedEvent,
    Partition,
    PartitionOutcome,
    UnitOutcome,
    UnitRequest,
)
from penstock.store.offsets import FirstStart

METRICS = Metrics()


class HandClock:
    """Simulated time: both clocks advance by `advance` only, and `sleep` advances them."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.wall = 1_700_000_000.0
        self.clock = Clock(monotonic=lambda: self.now, time=lambda: self.wall, sleep=self.advance, random=lambda: 0.5)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds


class HandThreads(Threads):
    """Starts no thread; waiting for a mailbox takes simulated time."""

    def __init__(self, time: HandClock) -> None:
        super().__init__()
        self._time = time

    def mailbox(self) -> Mailbox[Any]:
        return HandMailbox(self._time)


class HandMailbox(Mailbox[Any]):
    def __init__(self, time: HandClock) -> None:
        super().__init__()
        self._time = time

    def get(self, timeout: float = 0.0) -> Any:
        item = super().get()
        if item is None:
            self._time.advance(timeout)
        return item


class FakeCluster:
    """Topics with the ends of their logs."""

    def __init__(self, **topics: list[int]) -> None:
        self.ends: dict[str, list[int]] = dict(topics)
        self.starts: dict[Partition, int] = {}
        self.ids = {name: f"{name}-1" for name in topics}
        self.offline: set[Partition] = set()
        self.unavailable = False
        self.times: dict[Partition, int | None] = {}
        self.high: dict[Partition, int] = {}

    def _answer(self) -> None:
        if self.unavailable:
            raise Unavailable("the cluster does not answer")

    def topics(self, timeout: float | None = None) -> dict[str, int]:
        self._answer()
        return {name: len(ends) for name, ends in self.ends.items()}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        self._answer()
        return {name: self.ids[name] for name in names if name in self.ids}

    def watermarks(
        self, places: Sequence[Partition], *, committed_only: bool = True
    ) -> dict[Partition, tuple[int, int]]:
        self._answer()
        known = [tp for tp in places if tp[0] in self.ends and tp[1] < len(self.ends[tp[0]]) and tp not in self.offline]
        high = {} if committed_only else self.high
        return {tp: (self.starts.get(tp, 0), high.get(tp, self.ends[tp[0]][tp[1]])) for tp in known}

    def find_watermarks(self, places: Sequence[Partition], *, committed_only: bool = True) -> Watermarks:
        found = self.watermarks(places, committed_only=committed_only)
        return Watermarks(found, {tp: f"{tp[0]}/{tp[1]} has no leader" for tp in places if tp in self.offline})

    def offsets_for_times(self, times: Mapping[Partition, int]) -> dict[Partition, int | None]:
        self._answer()
        return {tp: self.times.get(tp) for tp in times}


class FakeConsumer:
    """A group consumer whose rebalances are called by the test, from inside `poll`."""

    def __init__(self, group: FakeGroupBroker, listener: Any) -> None:
        self.group, self.listener = group, listener
        self.last_error: str | None = None
        self.fatal: Any = None
        self.closed = False
        self.inbox: list[Callable[[], None]] = []

    def join(self, topics: Sequence[str]) -> None:
        self.topics = list(topics)

    def poll(self, timeout: float) -> bool:
        if not self.group.answers:
            return False
        while self.inbox:
            self.inbox.pop(0)()
        return True

    def commit(self, commits: Mapping[Partition, Commit]) -> None:
        if self.group.refuse is not None:
            raise self.group.refuse
        self.group.history.append(dict(commits))
        self.group.commits.update(commits)

    def committed(self, partitions: Iterable[Partition], timeout: float = 10.0) -> dict[Partition, Any]:
        if self.group.refuse is not None:
            raise self.group.refuse
        found = {tp: self.group.commits.get(tp) for tp in partitions}
        return {tp: (commit.offset, commit.metadata) if commit else (None, "") for tp, commit in found.items()}

    def close(self) -> None:
        self.closed = True
        for partitions in self.group.revoked_on_close:
            self.listener.revoked(partitions)


class FakeGroupBroker:
    """What is committed, and how commits end."""

    def __init__(self) -> None:
        self.commits: dict[Partition, Commit] = {}
        self.history: list[dict[Partition, Commit]] = []
        self.refuse: CommitRefused | None = None
        self.answers = True
        """False: a commit is open, and nothing is served."""
        self.consumers: list[FakeConsumer] = []
        self.revoked_on_close: list[list[Partition]] = []

    def make(self, client: Any, group: str, listener: Any, **_: Any) -> Any:
        self.consumers.append(FakeConsumer(self, listener))
        return self.consumers[-1]

    @property
    def member(self) -> FakeConsumer:
        return self.consumers[-1]

    def offset(self, partition: Partition) -> int | None:
        return self.commits[partition].offset if partition in self.commits else None


class FakeStore:
    """Dead letters, mirror, first starts and history, in memory."""

    def __init__(self) -> None:
        self.letters: dict[tuple[str, str, int, int], DeadLetter] = {}
        self.notes: list[tuple[str, str]] = []
        self.starts: dict[str, dict[str, FirstStart]] = {}
        self.unavailable = False
        self.dead_letters = SimpleNamespace(record=self._record)
        self.offsets = SimpleNamespace(mirrored=self._mirrored, first_start=self._first_start)
        self.pipelines = SimpleNamespace(note=self._note)

    def _answer(self) -> None:
        if self.unavailable:
            raise Unavailable("the store does not answer")

    def _record(self, letters: Sequence[DeadLetter], by: str | None = None) -> None:
        self._answer()
        for letter in letters:
            self.letters[letter.pipeline, letter.topic_id, letter.partition, letter.offset] = letter

    def _mirrored(self, group: str) -> dict[Partition, Any]:
        self._answer()
        return {}

    def _first_start(self, group: str, topics: Mapping[str, int], at_ms: int) -> dict[str, FirstStart]:
        self._answer()
        return self.starts.setdefault(group, {topic: FirstStart(count, at_ms) for topic, count in topics.items()})

    def _note(self, pipeline: str, instance: str, kind: str, text: str, data: Any = None) -> None:
        self._answer()
        self.notes.append((kind, text))

    @property
    def offsets_of_letters(self) -> list[int]:
        return sorted(offset for *_, offset in self.letters)


@dataclass
class FakeDispatcher:
    """Notes what runners ask for; `plan` is what a lane would do."""

    asked: list[str] = field(default_factory=list)
    cancelled: list[set[int]] = field(default_factory=list)
    stopped: list[set[int]] = field(default_factory=list)
    lanes: tuple[str, ...] = ("shared-0",)
    on_cancel: Callable[[set[int]], None] | None = None
    on_ready: Callable[..., None] | None = None
    """What a lane does when a runner is ready."""
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def __getattr__(self, name: str) -> Any:
        if name not in ("add", "remove", "wake", "isolate", "renew", "dedicate"):
            raise AttributeError(name)
        return lambda *_, **__: self.asked.append(name)

    def lanes_of(self, runner: Any) -> tuple[str, ...]:
        return self.lanes

    def ready(self, runner: Any) -> None:
        self.asked.append("ready")
        if self.on_ready is not None:
            self.on_ready(runner)

    def cancel(self, units: set[int]) -> None:
        self.cancelled.append(units)
        if self.on_cancel is not None:
            self.on_cancel(units)

    def stop_units(self, units: set[int]) -> None:
        self.stopped.append(units)

    def new_unit(self) -> int:
        return next(self.numbers)


class FakeDesired:
    """The desired state of one pipeline, and what its runner asked for."""

    def __init__(self) -> None:
        self.state = DesiredState()
        self.asked: list[tuple[str, str]] = []

    def desired(self, pipeline: str) -> DesiredState:
        return self.state

    def fail(self, pipeline: str, reason: str, events: Any) -> None:
        self.asked.append(("fail", reason))

    def pause(self, pipeline: str, *, by: str, reason: str, resume_after: float | None = None) -> None:
        self.asked.append(("pause", reason))

    def resume(self, pipeline: str, *, by: str, reason: str | None = None) -> None:
        self.asked.append(("resume", reason or ""))


class FakeCrashed:
    """Poison events as the driver would read them."""

    def __init__(self) -> None:
        self.passed: list[int] = []
        self.unavailable = False
        self.at: int | None = None

    def failure(self, state: Any, offset: int, *, stage: Any, reason: str) -> FailedEvent | None:
        if self.unavailable:
            raise Unavailable("the log cannot be read")
        return failed(state.key, offset, stage=stage)

    def cursor(self, state: Any) -> int | None:
        return self.at

    def pass_over(self, state: Any, offset: int, cursor: int | None) -> None:
        self.passed.append(offset)


def spec(**more: Any) -> PipelineSpec:
    source = {"connection": {"bootstrap": "localhost:1"}, "topics": ["t"], "format": "json"} | more.pop("source", {})
    document = {"name": "p", "source": {"config": source}, "action": {"type": "hello_world"}} | more
    return PipelineSpec.model_validate(document)


def failed(partition: Partition, offset: int, *, stage: Any = "act") -> FailedEvent:
    failure = Failure(
        stage=stage,
        error_code="ValueError",
        error_class="builtins.ValueError",
        error="bad",
        traceback="",
        fingerprint="f",
        attempts=1,
        first_failed_at=1,
        last_failed_at=1,
        value_seen=None,
    )
    return FailedEvent(Record(*partition, offset, None, b"{}", [], 1, 1), failure, "JsonEvent")


class Driver:
    """One runner with fakes around it, stepped by the test instead of by a thread."""

    def __init__(self, given: PipelineSpec | None = None, *, pinned: bool = False, **topics: list[int]) -> None:
        self.time = HandClock()
        self.cluster = FakeCluster(**(topics or {"t": [0, 0]}))
        self.group, self.store, self.dispatcher = FakeGroupBroker(), FakeStore(), FakeDispatcher()
        self.desired, self.crashed = FakeDesired(), FakeCrashed()
        watcher = SimpleNamespace(watch=lambda *_: None, leave=lambda *_: None)
        context: Any = EngineContext(
            instance="here",
            store=self.store,  # type: ignore[arg-type]  # fakes of what is used
            desired=self.desired,  # type: ignore[arg-type]
            dispatcher=self.dispatcher,  # type: ignore[arg-type]
            cluster=self.cluster,  # type: ignore[arg-type]
            idle_watcher=watcher,  # type: ignore[arg-type]
            metrics=METRICS,
            taps=Taps(),
            session_timeout=10.0,
            idle_policy=IdlePolicy(),
            clock=self.time.clock,
            threads=HandThreads(self.time),
            group_consumer=self.group.make,
        )
        made = given or spec()
        blueprint = Blueprint(made, KafkaClientConfig.of(made.source.config.connection), None)
        self.runner = PipelineRunner(made, blueprint, context, pinned=pinned, crashed=self.crashed)

    def join(self, *partitions: Partition) -> None:
        """Join the group, get these partitions, and find their positions."""
        self.runner.membership.join()
        self.group.member.listener.assigned(list(partitions or [("t", 0), ("t", 1)]))
        self.tick()

    def tick(self) -> None:
        self.runner._tick()

    def pass_time(self, seconds: float) -> None:
        """Let time pass as it does for a running thread, which ticks at least every second."""
        for _ in range(int(seconds)):
            self.time.advance(1.0)
            self.tick()

    def plan(self, lane: str = "shared-0", lanes: tuple[str, ...] = ("shared-0",)) -> UnitRequest | None:
        self.runner.activity.become("shared")
        return self.runner.plan(lane, lanes, self.dispatcher.new_unit)

    def deliver(self, outcome: UnitOutcome, seconds: float = 1.0) -> None:
        self.runner.deliver(outcome, seconds)
        self.runner._read_mail(0.0)


def done(
    request: UnitRequest,
    ends: Mapping[Partition, int],
    *,
    pending: Mapping[Partition, tuple[int, ...]] | None = None,
    failures: Sequence[FailedEvent] = (),
    **more: Any,
) -> UnitOutcome:
    """The outcome of a unit that read every assigned partition up to these ends, and acted on what did not fail."""
    parts = [
        _part(a, ends.get(a.key, a.next_offset), (pending or {}).get(a.key, ()), failures) for a in request.assignments
    ]
    counts = Counts(
        read=sum(p.account.read for p in parts), acted=sum(p.account.acted for p in parts), failed=len(failures)
    )
    return UnitOutcome(
        request.unit, request.pipeline, request.revision, "done", parts, counts, failures=list(failures), **more
    )


def _part(a: Assignment, end: int, pending: tuple[int, ...], failures: Sequence[FailedEvent]) -> PartitionOutcome:
    bad = sum((f.record.topic(), f.record.partition()) == a.key for f in failures)
    read = end - a.next_offset
    account = Account(a.next_offset, len(a.pending), read, acted=len(a.pending) + read - bad - len(pending), failed=bad)
    return PartitionOutcome(*a.key, a.epoch, end, pending, topic_id=a.topic_id, account=account)
