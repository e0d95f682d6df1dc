"""A pipeline's place in its consumer group: which partitions it owns, where each stands, and the commits."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog

from penstock.config.spec import PipelineSpec
from penstock.core.backoff import Backoff
from penstock.core.errors import Unavailable
from penstock.core.failpoints import reach
from penstock.core.metrics import Metrics
from penstock.core.status import PartitionStatus
from penstock.engine.pipelines.partitions import PartitionState, PendingRetry
from penstock.engine.pipelines.positions import Position, Remembered, find, policy_offsets
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import CommitRefused, GroupConsumer, RebalanceListener
from penstock.pipeline.messages import Assignment, Partition
from penstock.store import MirrorRow, Store

log = structlog.get_logger("penstock.membership")

CLIENT_ID = "penstock-"
"""Beginning of the client id of Penstock's own members, unless the connection names another."""

_LOOK_EVERY = 3.0
"""Seconds between looks at a cluster that gives no partitions or reports errors."""
_epochs = itertools.count(1)


def new_epoch() -> int:
    """Tells one assignment of a partition from the next."""
    return next(_epochs)


class Owner(Protocol):
    """The flow, as its membership needs it."""

    lock: threading.RLock

    def drain(self, partitions: list[Partition]) -> None: ...
    def dropped(self, partitions: list[Partition]) -> None: ...


class Neighbours(Protocol):
    """What a membership shares with others of the instance."""

    @property
    def instance(self) -> str: ...
    @property
    def store(self) -> Store: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def session_timeout(self) -> float: ...
    @property
    def metrics(self) -> Metrics: ...


class GroupMembership(RebalanceListener):
    """Used by the flow's own thread; `owned` is guarded by the flow's lock, for lanes plan from it."""

    commits = True
    has_log = True
    """False: there is no log to look into, and what a worker leaves open is delivered anew, under other numbers."""

    def __init__(self, spec: PipelineSpec, client: KafkaClientConfig, around: Neighbours, owner: Owner) -> None:
        self.spec = spec
        self.owned: dict[Partition, PartitionState] = {}
        self.topic_ids: dict[str, str] = {}
        self.ends: dict[Partition, int] = {}
        self.settled = False
        """True once the first assignment has its positions."""
        self.total = 0
        """Partitions of all subscribed topics, whoever owns them, as far as known."""
        self._client = client
        self._around = around
        self._cluster = around.cluster
        self._owner = owner
        self._fresh: set[Partition] = set()
        self._blocked: dict[Partition, str] = {}
        self._unavailable: dict[Partition, str] = {}
        """New partitions whose leader does not answer, and the reason."""
        self._member: GroupConsumer | None = None
        self._retry = Backoff(first=0.5, most=10.0)
        self._trouble: str | None = None
        self._looked_at = 0.0
        self._looked = False
        """True: since it joined, the cluster was asked why there are no partitions, and nothing is wrong."""

    # -- life in the group -----------------------------------------------------------------

    def join(self) -> None:
        """Raises `Unavailable` or `ConfigError` when the cluster cannot be used."""
        self.count_partitions(self._cluster.topics(timeout=10.0))
        self._member = GroupConsumer(
            self._client,
            self.spec.group,
            self,
            session_timeout=self._around.session_timeout,
            client_id=f"{CLIENT_ID}{self._around.instance}",
        )
        self._member.join(self.spec.source.config.subscription)
        self._looked_at, self._looked = time.monotonic(), False

    def poll(self, timeout: float) -> None:
        if self._member is not None:
            self._member.poll(timeout)
            if self._member.fatal is not None:
                raise self._member.fatal

    def leave(self) -> None:
        if self._member is not None:
            self._member.close()
            self._member = None
        self.lost(list(self.owned) + list(self._fresh))

    def last_positions(self) -> list[Assignment]:
        """What a worker has to know before it lets go of the pipeline."""
        return []

    def assigned(self, partitions: list[Partition]) -> None:
        self._fresh.update(partitions)
        log.info("partitions assigned", pipeline=self.spec.name, partitions=_names(partitions))

    def revoked(self, partitions: list[Partition]) -> None:
        log.info("partitions revoked", pipeline=self.spec.name, partitions=_names(partitions))
        self._owner.drain(partitions)
        self._drop(partitions)

    def lost(self, partitions: list[Partition]) -> None:
        if partitions:
            if self._member is not None:  # else it is we who have left
                self._around.metrics.rebalances.labels(self.spec.name, "lost").inc()
            self._drop(partitions)

    def _drop(self, partitions: Iterable[Partition]) -> None:
        gone = list(partitions)
        with self._owner.lock:
            for tp in gone:
                self.owned.pop(tp, None)
                self.ends.pop(tp, None)
                self._blocked.pop(tp, None)
                self._fresh.discard(tp)
        self._owner.dropped(gone)

    def doubt(self, partition: Partition) -> None:
        """The position of this partition is no longer sure: find it anew. The flow's lock is held."""
        self.owned.pop(partition, None)
        self._fresh.add(partition)

    def commit(self, parts: list[PartitionState]) -> None:
        """I1, I2: only what is finished, never backwards; raises `CommitRefused`."""
        with self._owner.lock:
            commits = {own.key: own.commit() for own in parts if own.committed is None or own.position >= own.committed}
        if commits:
            reach("before-commit")
            self._joined.commit(commits)
            reach("after-commit")
        with self._owner.lock:
            for own in parts:
                if own.key in commits:
                    own.committed = commits[own.key].offset

    def count_partitions(self, counts: Mapping[str, int]) -> None:
        """Take the cluster's topics with their number of partitions."""
        self.total = sum(counts[name] for name in self.spec.source.config.subscribed(counts))

    @property
    def _joined(self) -> GroupConsumer:
        if self._member is None:
            raise CommitRefused("not a member of the group", lost=True)
        return self._member

    def begin_anew(self) -> None:
        """What the worker held of the pipeline is gone."""

    def compare_topics(self, ids: Mapping[str, str]) -> None:
        """Doubt partitions whose topic was made anew: its offsets mean other records; it is read from its beginning.

        What was committed meanwhile carries the old id, so nothing is lost should the process end before this is seen.
        """
        with self._owner.lock:
            for tp, own in list(self.owned.items()):
                if ids.get(own.topic, own.topic_id) != own.topic_id:
                    if own.unit is None:
                        self.doubt(tp)
                    else:
                        own.doubtful = True

    # -- finding positions -----------------------------------------------------------------

    def resolve(self) -> bool:
        """Give newly assigned partitions their positions; True when there are new ones."""
        if not self._fresh or self._retry.waiting:
            return False
        wanted = sorted(self._fresh)
        try:
            found = self._positions(wanted)
        except Unavailable as error:
            self._retry.fail()
            self._trouble = str(error)
            return False
        self._retry.succeed()
        self._trouble = next(iter(self._unavailable.values()), None)
        for tp, position in found.items():
            self._enter(tp, position)
        missing = set(wanted) - set(found)
        if missing:
            # A leader does not answer, or the topic is being deleted or created: they are looked up again.
            self._retry.fail()
        self.settled = self.settled or not missing
        return bool(found)

    def _positions(self, wanted: list[Partition]) -> dict[Partition, Position]:
        topics = sorted({topic for topic, _ in wanted})
        self.topic_ids.update(self._cluster.topic_ids(topics))
        marks = self._cluster.find_watermarks(wanted)
        bounds, self._unavailable = marks.found, marks.unavailable
        present = [tp for tp in wanted if tp in bounds and tp[0] in self.topic_ids]
        self.ends.update({tp: bounds[tp][1] for tp in present})
        committed = self._committed(present)
        mirrored = self._mirrored() if len(committed) < len(present) else {}
        policy = policy_offsets(
            self._cluster, self._start(topics, committed, mirrored), {tp: bounds[tp] for tp in present}
        )
        found = {
            tp: find(
                tp,
                topic_id=self.topic_ids[tp[0]],
                committed=committed.get(tp),
                mirrored=mirrored.get(tp),
                bounds=bounds[tp],
                policy_offset=policy[tp],
            )
            for tp in present
        }
        self._commit_new(found)
        return found

    def _committed(self, partitions: list[Partition]) -> dict[Partition, Remembered]:
        answers = self._joined.committed(partitions)
        return {tp: Remembered(offset, metadata) for tp, (offset, metadata) in answers.items() if offset is not None}

    def _mirrored(self) -> dict[Partition, Remembered]:
        rows = self._around.store.offsets.mirrored(self.spec.group)
        return {tp: Remembered(row.offset, row.metadata) for tp, row in rows.items()}

    def _start(
        self, topics: list[str], committed: dict[Partition, Remembered], mirrored: dict[Partition, Remembered]
    ) -> int | str:
        """The start policy counts for partitions present at the first start; those that appear later begin at
        earliest."""
        started = bool(committed or mirrored or self.owned) or self._group_has_commits(topics)
        return "earliest" if started else self.spec.source.config.start_position

    def _group_has_commits(self, topics: list[str]) -> bool:
        counts = self._cluster.topics()
        others = [
            (topic, p)
            for topic in counts
            if topic in topics or self.spec.source.config.topic_pattern
            for p in range(counts[topic])
        ]
        return bool(self._committed(others))

    def _commit_new(self, found: dict[Partition, Position]) -> None:
        """A resolved start is committed at once, before the first unit: a crash must not resolve it again, later."""
        new = {
            tp: PartitionState(*tp, 0, self.topic_ids[tp[0]], position.next_offset, position.pending).commit()
            for tp, position in found.items()
            if position.commit
        }
        if new:
            self._joined.commit(new)
            reach("after-start-position")

    def _enter(self, tp: Partition, position: Position) -> None:
        if position.note:
            log.warning(position.note[1], pipeline=self.spec.name, topic=tp[0], partition=tp[1])
            self._note(*position.note, position)
        with self._owner.lock:
            self._fresh.discard(tp)
            self._blocked.pop(tp, None)
            if position.blocked:
                self._blocked[tp] = position.blocked
                return
            own = PartitionState(*tp, new_epoch(), self.topic_ids[tp[0]], position.next_offset, position.pending)
            longest = self.spec.options.retry.max_backoff
            own.waiting = tuple(PendingRetry.remembered(r, longest) for r in position.retries if own.is_open(r.offset))
            own.committed = own.position if self.commits else None
            own.at_end = own.next_offset >= self.ends[tp] and not own.pending
            self.owned[tp] = own

    def _note(self, kind: str, text: str, position: Position) -> None:
        data = (
            {"from": position.gap[0], "to": position.gap[1], "count": position.gap[1] - position.gap[0]}
            if position.gap
            else {}
        )
        try:
            self._around.store.pipelines.note(self.spec.name, self._around.instance, kind, text, data)
        except Unavailable:
            log.warning("history cannot be written", pipeline=self.spec.name)

    # -- what is shown ---------------------------------------------------------------------

    def lag(self) -> int:
        """Records behind, as far as known. The flow's lock is held."""
        return sum(max(0, self.ends.get(tp, 0) - own.position) for tp, own in self.owned.items())

    @property
    def well(self) -> bool:
        """True: what is assigned has its positions; nothing may be assigned, if nothing is wrong with the cluster."""
        return not self._fresh and self._trouble is None and (bool(self.owned) or self._looked)

    def trouble(self) -> str | None:
        """Why the pipeline cannot work, if it cannot."""
        if self._blocked:
            return next(iter(self._blocked.values()))
        member = self._member
        unsure = not self.owned or (member is not None and member.last_error is not None)
        if unsure and time.monotonic() >= self._looked_at + _LOOK_EVERY:
            self._trouble = self._look()
            self._looked_at, self._looked = time.monotonic(), self._trouble is None
            if self._trouble is None and member is not None:
                member.last_error = None
        elif not unsure and not self._fresh:
            self._trouble = None
        return self._trouble

    def _look(self) -> str | None:
        try:
            present = self._cluster.topics(timeout=3.0)
        except Unavailable as error:
            return str(error)
        config = self.spec.source.config
        missing = [t for t in config.subscription if not t.startswith("^") and not present.get(t)]
        if missing and not self.owned:
            return f"topic {', '.join(map(repr, missing))} does not exist"
        return None

    def remark(self) -> str | None:
        """Something worth knowing about a pipeline that is well."""
        return (
            "no partition is assigned to this instance" if self.settled and not self.owned and not self._fresh else None
        )

    def partitions(self, instance: str) -> list[PartitionStatus]:
        with self._owner.lock:
            return [
                PartitionStatus(
                    topic=own.topic,
                    partition=own.partition,
                    committed=own.committed if self.commits else own.position,
                    end=(end := self.ends.get(own.key)),
                    lag=max(0, end - own.position) if end is not None else None,
                    owner=instance,
                )
                for own in self.owned.values()
            ]

    def mirror_rows(self) -> list[MirrorRow]:
        """The last commits, for the store."""
        with self._owner.lock:
            commits = [(own, own.commit()) for own in self.owned.values() if own.committed is not None]
        return [
            MirrorRow(
                group=self.spec.group,
                topic=own.topic,
                topic_id=own.topic_id,
                partition=own.partition,
                offset=c.offset,
                metadata=c.metadata,
            )
            for own, c in commits
            if c.offset == own.committed
        ]


def _names(partitions: Iterable[Partition]) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in partitions]
