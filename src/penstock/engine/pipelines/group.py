"""A pipeline's place in its consumer group: which partitions it owns, where each begins, and the commits."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.failpoints import reach
from penstock.engine.pipelines.context import EngineContext
from penstock.engine.pipelines.partitions import PartitionState, PartitionTable, PendingRetry
from penstock.engine.pipelines.positions import Position, PositionFinder, Remembered
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import CommitRefused, GroupConsumer, RebalanceListener
from penstock.pipeline.messages import Assignment, Partition
from penstock.store import MirrorRow
from penstock.store.offsets import FirstStart

log = structlog.get_logger("penstock.group")

CLIENT_ID = "penstock-"
"""Beginning of the client id of Penstock's own group members, unless the connection names another."""

_LOOK_EVERY = 3.0
"""Seconds between looks at a cluster that assigns no partitions or reports errors."""
_BLOCKED_EVERY = 10.0
"""Seconds between looks at partitions whose committed offset lies beyond the end of their log."""
_NEW_PARTITIONS_EVERY = 6.0
"""Seconds between looks for new partitions, where no group says so."""
_IDLE_POLL = 0.2
_epochs = itertools.count(1)


def new_epoch() -> int:
    """Tells one assignment of a partition from the next (L4)."""
    return next(_epochs)


class PauseDetector:
    """Detects that the group was silent for longer than a third of the session timeout: the process was paused (by
    SIGSTOP, swap, CPU starvation), or the coordinator does not answer. After that, ownership of the partitions is
    verified by a commit before anything is planned.

    Ticked by a runner's thread when rebalances were served, read by lane threads.
    """

    def __init__(self, longest: float, clock: Clock = SYSTEM) -> None:
        self._longest = longest
        self._clock = clock
        self._at = clock.monotonic()
        self.stalled = False
        """True: there was a pause between two ticks; ownership has to be verified."""

    def tick(self) -> None:
        now = self._clock.monotonic()
        if now - self._at > self._longest:
            self.stalled = True
        self._at = now

    def reset(self) -> None:
        """Membership begins, or was verified: what happened before does not matter."""
        self._at = self._clock.monotonic()
        self.stalled = False

    @property
    def is_steady(self) -> bool:
        """Whether the partitions are ours for all we know; lane threads may resume before the runner's thread does."""
        return not self.stalled and self._clock.monotonic() - self._at <= self._longest


class Membership(ABC):
    """How a pipeline gets its partitions: by its group, all of them (stateless), or one of an external source.

    Used by the runner's thread only. `drain` blocks until what is in flight on revoked partitions is settled and
    committed, or abandoned; `stop_units` asks units on lost partitions to begin no further act.
    """

    commits: ClassVar[bool] = True
    has_log: ClassVar[bool] = True
    """False: there is no log; what a worker leaves open is delivered again under other numbers."""

    def __init__(
        self,
        spec: PipelineSpec,
        client: KafkaClientConfig,
        context: EngineContext,
        partitions: PartitionTable,
        *,
        drain: Callable[[list[Partition]], None],
        stop_units: Callable[[list[Partition]], None],
    ) -> None:
        self.spec = spec
        self.settled = False
        """True once the first assignment has its positions."""
        self._client, self._context, self._partitions = client, context, partitions
        self._clock = context.clock
        self._drain, self._stop_units = drain, stop_units
        self._unlocated: set[Partition] = set()
        """Assigned, without a position yet."""

    @abstractmethod
    def join(self) -> None:
        """Raises `Unavailable` or `ConfigError` when the cluster cannot be used."""

    @abstractmethod
    def poll(self, timeout: float) -> bool:
        """Serve rebalances for up to `timeout` seconds; True when they were served, and what is owned is still ours."""

    @abstractmethod
    def resolve(self) -> bool:
        """Give newly assigned partitions their positions; True when there are new ones. Never raises `Unavailable`."""

    @abstractmethod
    def commit(self, states: Iterable[PartitionState]) -> None:
        """I1, I2: commit what is finished, never backwards. Raises `CommitRefused`."""

    def leave(self) -> None:
        """Give all partitions up; nothing is in flight any more, or what is in flight was abandoned."""
        self._forget([*self._partitions.owned(), *self._unlocated])

    def forget_start(self) -> None:  # noqa: B027 - only stateless reading remembers its start
        """The pipeline is stopped or restarted on request: its next start applies the start policy anew where no group
        remembers a position."""

    def last_positions(self) -> list[Assignment]:
        """What a worker has to know before it closes the pipeline."""
        return []

    def start_over(self) -> None:  # noqa: B027 - only an external source delivers anew
        """What the worker held of the pipeline is gone."""

    def compare_topics(self, ids: Mapping[str, str]) -> None:
        """Another topic id than the one a partition was resolved for: its offsets mean other records. The partition is
        located again once nothing is in flight; what was committed meanwhile carries the old id."""
        with self._partitions.lock:
            for state in self._partitions:
                if ids.get(state.topic, state.topic_id) != state.topic_id:
                    state.relocate = True

    def count_partitions(self, counts: Mapping[str, int]) -> None:
        self._partitions.total = sum(counts[name] for name in self.spec.source.config.subscribed(counts))

    def trouble(self) -> str | None:
        """Why the pipeline cannot work, if it cannot."""
        return None

    def remark(self) -> str | None:
        """Something worth knowing about a pipeline that works."""
        return None

    @property
    def is_well(self) -> bool:
        """True: what is assigned has its positions."""
        return not self._unlocated

    def mirror_rows(self) -> list[MirrorRow]:
        """The last commits, for the store."""
        return []

    def _forget(self, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        self._unlocated.difference_update(gone)
        self._partitions.drop(gone)


class LogMembership(Membership):
    """What membership in a group and stateless reading share: partitions of Kafka topics that have to be located."""

    def __init__(
        self,
        spec: PipelineSpec,
        client: KafkaClientConfig,
        context: EngineContext,
        partitions: PartitionTable,
        *,
        drain: Callable[[list[Partition]], None],
        stop_units: Callable[[list[Partition]], None],
    ) -> None:
        super().__init__(spec, client, context, partitions, drain=drain, stop_units=stop_units)
        self._cluster = context.cluster
        self._blocked: dict[Partition, str] = {}
        self._blocked_at = 0.0
        self._retry = Backoff(first=0.5, most=10.0, clock=context.clock)
        self._trouble: str | None = None
        self._looked_at = 0.0
        self._looked = False
        """True: since it joined, the cluster was asked why there are no partitions, and nothing is wrong."""
        self._finder = PositionFinder(
            spec,
            context.cluster,
            committed=self._committed,
            mirrored=self._mirrored,
            first_starts=self._first_starts,
            clock=context.clock,
        )

    @abstractmethod
    def _committed(self, partitions: list[Partition]) -> dict[Partition, Remembered]:
        """What is remembered of these partitions."""

    @abstractmethod
    def _mirrored(self) -> dict[Partition, Remembered]:
        """What the store remembers of them."""

    @abstractmethod
    def _first_starts(self, topics: Mapping[str, int], now: int) -> Mapping[str, FirstStart]:
        """See `positions.FirstStarts`."""

    @abstractmethod
    def _commit_new(self, found: Mapping[Partition, Position]) -> None:
        """Commit start positions before the first unit: a crash must not resolve them again, later."""

    def assigned(self, partitions: list[Partition]) -> None:
        self._unlocated.update(partitions)
        # What could not be located before does not hold up the new ones.
        self._retry.succeed()
        log.info("partitions assigned", pipeline=self.spec.name, partitions=_names(partitions))

    def resolve(self) -> bool:
        self._collect_relocations()
        if not self._unlocated or self._retry.waiting:
            return False
        wanted = sorted(self._unlocated)
        try:
            found = self._finder.find(wanted)
            self._commit_new({tp: at for tp, at in found.items() if at.commit and at.blocked is None})
        except (Unavailable, CommitRefused) as error:
            # L6: an outage, or a coordinator that is loading or rebalancing, is waited out inside the group.
            self._retry.fail()
            self._trouble = str(error)
            return False
        for tp, position in found.items():
            self._enter(tp, position)
        missing = set(wanted) - set(found)
        if missing:
            # The topic is being created or deleted, or a partition has no leader: the others go on.
            self._retry.fail()
            reasons = [self._finder.missing.get(tp, f"{tp[0]}/{tp[1]} does not exist") for tp in sorted(missing)]
            self._trouble = "; ".join(reasons[:3])
        else:
            self._retry.succeed()
            self._trouble = None
        self.settled = self.settled or not missing
        return bool(found)

    def _collect_relocations(self) -> None:
        """Partitions whose position is in doubt, once nothing of them is in flight or uncommitted; and, now and then,
        those that are blocked."""
        with self._partitions.lock:
            doubtful = [s.key for s in self._partitions if s.relocate and s.unit is None and not s.is_dirty]
            self._partitions.drop(doubtful)
        self._unlocated.update(doubtful)
        if self._blocked and self._clock.monotonic() >= self._blocked_at + _BLOCKED_EVERY:
            self._blocked_at = self._clock.monotonic()
            self._unlocated.update(self._blocked)

    def _enter(self, tp: Partition, position: Position) -> None:
        if position.note:
            log.warning(position.note[1], pipeline=self.spec.name, topic=tp[0], partition=tp[1])
            self._context.note(self.spec.name, *position.note, position.gap)
        self._unlocated.discard(tp)
        self._blocked.pop(tp, None)
        if position.blocked:
            if not self._blocked:
                self._blocked_at = self._clock.monotonic()
            self._blocked[tp] = position.blocked
            return
        state = PartitionState(*tp, new_epoch(), position.topic_id, position.next_offset, position.pending)
        longest = self.spec.options.retry.max_backoff
        retries = [PendingRetry.remembered(retry, longest, self._clock) for retry in position.retries]
        state.clock = self._clock
        state.log_start = position.log_start
        state.retries = tuple(retry for retry in retries if state.is_open(retry.offset))
        state.at_end = state.next_offset >= position.end and not state.pending
        state.committed_as(state.position if self.commits else None, state.progress)
        with self._partitions.lock:
            self._partitions.ends[tp] = position.end
            self._partitions.add(state)

    def _forget(self, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        for tp in gone:
            self._blocked.pop(tp, None)
        super()._forget(gone)

    # -- what is shown ---------------------------------------------------------------------

    @property
    def is_well(self) -> bool:
        """Nothing may be assigned, if nothing is wrong with the cluster."""
        return not self._unlocated and self._trouble is None and (len(self._partitions) > 0 or self._looked)

    def trouble(self) -> str | None:
        if self._blocked:
            return next(iter(self._blocked.values()))
        unsure = not len(self._partitions) or self._client_error is not None
        if unsure and self._clock.monotonic() >= self._looked_at + _LOOK_EVERY:
            self._trouble = self._look()
            self._looked_at, self._looked = self._clock.monotonic(), self._trouble is None
            if self._trouble is None:
                self._clear_client_error()
        elif not unsure and not self._unlocated:
            self._trouble = None
        return self._trouble

    @property
    def _client_error(self) -> str | None:
        return None

    def _clear_client_error(self) -> None:
        """The cluster answers."""

    def _look(self) -> str | None:
        try:
            present = self._cluster.topics(timeout=3.0)
        except PenstockError as error:
            return str(error)
        subscription = self.spec.source.config.subscription
        missing = [topic for topic in subscription if not topic.startswith("^") and not present.get(topic)]
        if missing and not len(self._partitions):
            return f"topic {', '.join(map(repr, missing))} does not exist"
        return None

    def remark(self) -> str | None:
        none = self.settled and not len(self._partitions) and not self._unlocated
        return "no partition is assigned to this instance" if none else None


class _Callbacks(RebalanceListener):
    """Rebalance callbacks of one group consumer; those of a former one are ignored."""

    def __init__(self, membership: GroupMembership) -> None:
        self._membership: GroupMembership | None = membership

    def detach(self) -> None:
        self._membership = None

    def assigned(self, partitions: list[Partition]) -> None:
        if self._membership is not None:
            self._membership.assigned(partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        if self._membership is not None:
            self._membership.revoked(partitions)

    def lost(self, partitions: list[Partition]) -> None:
        if self._membership is not None:
            self._membership.lost(partitions)


class GroupMembership(LogMembership):
    """A member of the pipeline's consumer group."""

    _consumer: GroupConsumer | None = None
    _callbacks: _Callbacks | None = None

    def join(self) -> None:
        self.count_partitions(self._cluster.topics(timeout=10.0))
        self._callbacks = _Callbacks(self)
        self._consumer = self._context.group_consumer(
            self._client,
            self.spec.group,
            self._callbacks,
            session_timeout=self._context.session_timeout,
            client_id=f"{CLIENT_ID}{self._context.instance}",
        )
        self._consumer.join(self.spec.source.config.subscription)
        self._looked_at, self._looked = self._clock.monotonic(), False

    def poll(self, timeout: float) -> bool:
        if self._consumer is None:
            return False
        served = self._consumer.poll(timeout)
        if self._consumer.fatal is not None:
            raise self._consumer.fatal
        return served

    def leave(self) -> None:
        consumer, callbacks, self._consumer, self._callbacks = self._consumer, self._callbacks, None, None
        if callbacks is not None:
            # Everything is finished or abandoned: callbacks of the closing consumer have nothing left to do.
            callbacks.detach()
        if consumer is not None:
            consumer.close()
        super().leave()

    def revoked(self, partitions: list[Partition]) -> None:
        log.info("partitions revoked", pipeline=self.spec.name, partitions=_names(partitions))
        self._context.count(lambda metrics: metrics.rebalances.labels(self.spec.name, "revoked").inc())
        self._drain(partitions)
        self._forget(partitions)

    def lost(self, partitions: list[Partition]) -> None:
        """The session expired: other members own these now. Units on them stop before their next act."""
        log.warning("partitions lost", pipeline=self.spec.name, partitions=_names(partitions))
        self._context.count(lambda metrics: metrics.rebalances.labels(self.spec.name, "lost").inc())
        self._stop_units(partitions)
        self._forget(partitions)

    def commit(self, states: Iterable[PartitionState]) -> None:
        with self._partitions.lock:
            chosen = [(state, state.commit(), state.progress) for state in states]
        # I2: never below the last commit. A cursor that was set back in the target catches up first.
        commits = {s.key: c for s, c, _ in chosen if s.committed is None or c.offset >= s.committed}
        if commits:
            reach("before-commit")
            self._joined.commit(commits)
            reach("after-commit")
        with self._partitions.lock:
            for state, commit, progress in chosen:
                state.committed_as(commit.offset if state.key in commits else None, progress)

    @property
    def _joined(self) -> GroupConsumer:
        if self._consumer is None:
            raise CommitRefused("not a member of the group", lost=True)
        return self._consumer

    def _committed(self, partitions: list[Partition]) -> dict[Partition, Remembered]:
        answers = self._joined.committed(partitions)
        return {tp: Remembered(offset, metadata) for tp, (offset, metadata) in answers.items() if offset is not None}

    def _mirrored(self) -> dict[Partition, Remembered]:
        rows = self._context.store.offsets.mirrored(self.spec.group)
        return {tp: Remembered(row.offset, row.metadata, row.topic_id or None) for tp, row in rows.items()}

    def _first_starts(self, topics: Mapping[str, int], now: int) -> Mapping[str, FirstStart]:
        return self._context.store.offsets.first_start(self.spec.group, topics, now)

    def _commit_new(self, found: Mapping[Partition, Position]) -> None:
        new = {tp: PartitionState(*tp, 0, at.topic_id, at.next_offset, at.pending).commit() for tp, at in found.items()}
        if new:
            self._joined.commit(new)
            reach("after-start-position")

    @property
    def _client_error(self) -> str | None:
        return self._consumer.last_error if self._consumer is not None else None

    def _clear_client_error(self) -> None:
        if self._consumer is not None:
            self._consumer.last_error = None

    def mirror_rows(self) -> list[MirrorRow]:
        return self._partitions.mirror_rows(self.spec.group)


class StatelessMembership(LogMembership):
    """No group: every instance reads every partition from the start policy on, and nothing is committed. Positions are
    kept in memory through outages and restarts of the runner, until the pipeline is stopped or restarted on request."""

    commits = False
    _positions: dict[Partition, Remembered]
    _starts: dict[str, FirstStart] | None = None
    _outage: str | None = None
    """Why the last look for new partitions failed: what is shown until the cluster answers."""

    def join(self) -> None:
        self._positions = getattr(self, "_positions", {})
        self._take_new_partitions()

    def poll(self, timeout: float) -> bool:
        if timeout:
            self._clock.sleep(min(timeout, _IDLE_POLL))
        if self._clock.monotonic() >= self._looked_at + _NEW_PARTITIONS_EVERY:
            try:
                self._take_new_partitions()
            except Unavailable as error:
                # L6: an outage moves no position.
                self._looked_at = self._clock.monotonic()
                self._trouble = self._outage = str(error)
        return True

    @property
    def _client_error(self) -> str | None:
        return self._outage

    def _clear_client_error(self) -> None:
        self._outage = None

    def _take_new_partitions(self) -> None:
        counts = self._cluster.topics(timeout=10.0)
        self._outage = None
        self.count_partitions(counts)
        names = self.spec.source.config.subscribed(counts)
        known = set(self._partitions.owned()) | self._unlocated | set(self._blocked)
        new = [(name, p) for name in names for p in range(counts[name]) if (name, p) not in known]
        if new:
            self.assigned(new)
        self._looked_at = self._clock.monotonic()

    def leave(self) -> None:
        with self._partitions.lock:
            self._positions |= {s.key: Remembered(s.position, s.commit().metadata) for s in self._partitions}
        super().leave()

    def forget_start(self) -> None:
        self._positions, self._starts, self.settled = {}, None, False

    def commit(self, states: Iterable[PartitionState]) -> None:
        """Nothing is committed: what is finished counts as remembered."""
        with self._partitions.lock:
            for state in states:
                state.committed_as(None, state.progress)

    def _committed(self, partitions: list[Partition]) -> dict[Partition, Remembered]:
        return {tp: self._positions[tp] for tp in partitions if tp in self._positions}

    def _mirrored(self) -> dict[Partition, Remembered]:
        return {}

    def _first_starts(self, topics: Mapping[str, int], now: int) -> Mapping[str, FirstStart]:
        if self._starts is None:
            self._starts = {topic: FirstStart(count, now) for topic, count in topics.items()}
        return self._starts

    def _commit_new(self, found: Mapping[Partition, Position]) -> None:
        """Nothing to commit."""


def _names(partitions: Iterable[Partition]) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in partitions]
