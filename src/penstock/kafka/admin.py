"""Look-ups at the cluster: topics and their ids, ends of partitions, committed offsets, members of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    admin,
)

from penstock.core.errors import ConfigError
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import ABSENT, UNSUPPORTED, BrokerUnavailable, ErrorLog, UnknownTopic, kafka_error, translate

_kafka: Any = admin  # its names are re-exported without being declared

Place = tuple[str, int]
"""A topic and a partition of it."""

_EMBEDDED = "mockCluster"
"""Beginning of the cluster id of librdkafka's mock cluster, which has no topic ids and no rights."""
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer in a group."""

    member_id: str
    client_id: str
    host: str
    assigned: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group as the broker sees it."""

    state: str
    """`stable`, `empty`, `dead`, `preparing_rebalancing`, …; `unknown` where the broker cannot say."""
    assignor: str
    """Partition assignor the members agreed on; empty without members."""
    members: tuple[GroupMember, ...]


class ClusterView:
    """Questions to one cluster; safe to share between threads. Any may raise `Unavailable` or `ConfigError`."""

    def __init__(self, config: KafkaClientConfig, timeout: float = 10.0) -> None:
        self._config = config
        self._timeout = timeout
        self._errors = ErrorLog()
        try:
            self._admin: Any = _kafka.AdminClient(config.admin({"error_cb": self._errors}))
        except KafkaException as error:  # a token callback that fails, for instance
            raise translate(error, f"connecting to {config.bootstrap}") from error

    def topics(self, timeout: float | None = None) -> dict[str, int]:
        """All topics that we may see, with their number of partitions."""
        return {name: len(topic.partitions) for name, topic in self._metadata(timeout).topics.items()}

    def cluster_id(self, timeout: float | None = None) -> str:
        return self._metadata(timeout).cluster_id or ""

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Kafka's ids of the topics; `cluster id/name` where the broker has none. Unknown topics are left out."""
        metadata = self._metadata(None)
        wanted = [name for name in names if name in metadata.topics]
        # Only a cluster that surely has no ids gets the substitute: a slow broker must not make a topic look new.
        if not wanted or (metadata.cluster_id or "").startswith(_EMBEDDED):
            return {name: f"{metadata.cluster_id}/{name}" for name in wanted}
        ids: dict[str, str] = {}
        for name, future in self._ask(
            lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout)
        ).items():
            try:
                given = str(future.result(self._timeout + 1).topic_id)
            except KafkaException as error:
                if kafka_error(error).code() in ABSENT:
                    continue
                if kafka_error(error).code() not in UNSUPPORTED:
                    raise self._translated(error, f"asking for the id of topic {name}") from error
                given = _ZERO_ID
            ids[name] = f"{metadata.cluster_id}/{name}" if given == _ZERO_ID else given
        return ids

    def watermarks(self, places: Sequence[Place], *, committed_only: bool = True) -> dict[Place, tuple[int, int]]:
        """First offset and end of each partition; partitions that do not exist are left out.

        `committed_only`: the end is that of the finished transactions, which is as far as a reader gets.
        """
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        lows = self._list_offsets(dict.fromkeys(places, _kafka.OffsetSpec.earliest()), level)
        highs = self._list_offsets(dict.fromkeys(places, _kafka.OffsetSpec.latest()), level)
        low, high = self._collect(lows), self._collect(highs)
        return {place: (low[place], high[place]) for place in places if place in low and place in high}

    def offsets_for_times(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """First offset at or after a time (epoch milliseconds) per partition; None where no record is that young."""
        asked = self._list_offsets(
            {p: _kafka.OffsetSpec.for_timestamp(ms) for p, ms in times.items()}, IsolationLevel.READ_UNCOMMITTED
        )
        return {place: (offset if offset >= 0 else None) for place, offset in self._collect(asked).items()}

    def committed(self, group: str, places: Sequence[Place]) -> dict[Place, tuple[int | None, str | None]]:
        """Committed offset (None: never) and commit metadata of each partition."""
        if not places:
            return {}
        request = [ConsumerGroupTopicPartitions(group, [TopicPartition(t, p) for t, p in places])]
        answer = self._ask(lambda: self._admin.list_consumer_group_offsets(request, request_timeout=self._timeout))[
            group
        ]
        found: dict[Place, tuple[int | None, str | None]] = {}
        for tp in self._result(answer, f"asking for the offsets of group {group}").topic_partitions:
            if tp.error is not None and tp.error.code() not in ABSENT:
                raise self._translated(tp.error, f"asking for the offset of {tp.topic}/{tp.partition} in group {group}")
            found[tp.topic, tp.partition] = (tp.offset, tp.metadata or None) if tp.offset >= 0 else (None, None)
        return found

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic; raises `ConfigError` where it exists. The embedded cluster gives it four partitions."""
        metadata = self._metadata(None)
        if (metadata.cluster_id or "").startswith(_EMBEDDED):
            if name in metadata.topics:
                raise ConfigError(f"making topic {name}: it exists", received=name)
            self._admin.list_topics(name, timeout=self._timeout)
            return
        new = _kafka.NewTopic(name, partitions, replication, config=dict(config or {}))
        made = self._ask(lambda: self._admin.create_topics([new], request_timeout=self._timeout))
        self._result(made[name], f"making topic {name}")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all it holds."""
        gone = self._ask(lambda: self._admin.delete_topics([name], request_timeout=self._timeout))
        self._result(gone[name], f"deleting topic {name}")

    def group(self, name: str) -> GroupView:
        """State, assignor and members of a consumer group."""
        asked = self._ask(lambda: self._admin.describe_consumer_groups([name], request_timeout=self._timeout))[name]
        try:
            seen = asked.result(self._timeout + 1)
        except KafkaException as error:
            if kafka_error(error).code() in UNSUPPORTED:
                return GroupView("unknown", "", ())
            raise self._translated(error, f"describing group {name}") from error
        members = tuple(
            GroupMember(
                m.member_id,
                m.client_id,
                m.host,
                tuple((tp.topic, tp.partition) for tp in m.assignment.topic_partitions),
            )
            for m in seen.members
        )
        return GroupView(seen.state.name.lower(), seen.partition_assignor or "", members)

    def brokers(self) -> list[tuple[str, int]]:
        """Addresses that the cluster gives to its clients."""
        return [(broker.host, broker.port) for broker in self._metadata(None).brokers.values()]

    def may_read_topic(self, name: str) -> bool:
        """Whether the broker lets us read the topic; True where it cannot say."""
        if self.cluster_id().startswith(_EMBEDDED):
            return True
        wanted = TopicCollection([name])
        answer = self._ask(lambda: self._admin.describe_topics(wanted, **self._with_rights))[name]
        return self._readable(answer, f"asking for the rights on topic {name}")

    def may_join_group(self, name: str) -> bool:
        """Whether the broker lets us join the group; True where it cannot say. The group is not joined."""
        answer = self._ask(lambda: self._admin.describe_consumer_groups([name], **self._with_rights))[name]
        return self._readable(answer, f"asking for the rights on group {name}")

    @property
    def _with_rights(self) -> dict[str, Any]:
        return {"include_authorized_operations": True, "request_timeout": self._timeout}

    def _readable(self, answer: Future[Any], doing: str) -> bool:
        try:
            rights = answer.result(self._timeout + 1).authorized_operations
        except KafkaException as error:
            if kafka_error(error).code() in UNSUPPORTED:
                return True
            raise self._translated(error, doing) from error
        return not rights or _kafka.AclOperation.READ in rights

    def group_members(self, name: str) -> tuple[GroupMember, ...]:
        """Members of a consumer group; none where the broker cannot say."""
        return self.group(name).members

    def existing(self, names: Iterable[str]) -> dict[str, int]:
        """Partition counts of these topics; raises `UnknownTopic` naming the ones that do not exist."""
        known = self.topics()
        missing = sorted(name for name in names if name not in known)
        if missing:
            visible = sorted(name for name in known if not name.startswith("__"))[:20]
            raise UnknownTopic(
                f"no such topic: {', '.join(missing)}",
                received=missing,
                allowed=visible,
                hint="`penstock topics create` makes one",
            )
        return {name: known[name] for name in names}

    def _metadata(self, timeout: float | None) -> Any:
        try:
            return self._admin.list_topics(timeout=self._timeout if timeout is None else timeout)
        except KafkaException as error:
            raise self._translated(error, f"asking {self._config.bootstrap} for its topics") from error

    def _list_offsets(self, specs: Mapping[Place, Any], level: IsolationLevel) -> dict[Any, Future[Any]]:
        if not specs:
            return {}
        request = {TopicPartition(t, p): spec for (t, p), spec in specs.items()}
        return self._ask(
            lambda: self._admin.list_offsets(request, isolation_level=level, request_timeout=self._timeout)
        )

    def _collect(self, asked: dict[Any, Future[Any]]) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for tp, future in asked.items():
            try:
                found[tp.topic, tp.partition] = future.result(self._timeout + 1).offset
            except KafkaException as error:
                if kafka_error(error).code() not in ABSENT:
                    raise self._translated(error, f"asking for offsets of {tp.topic}/{tp.partition}") from error
        return found

    def _ask(self, call: Any) -> dict[Any, Future[Any]]:
        try:
            futures: dict[Any, Future[Any]] = call()
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the Kafka client refuses the request: {error}") from error
        except KafkaException as error:
            raise self._translated(error, "asking the cluster") from error
        return futures

    def _result(self, future: Future[Any], doing: str) -> Any:
        try:
            return future.result(self._timeout + 1)
        except KafkaException as error:
            raise self._translated(error, doing) from error
        except TimeoutError as error:
            raise BrokerUnavailable(f"{doing}: no answer within {self._timeout:g} s") from error

    def _translated(self, error: KafkaException | KafkaError, doing: str) -> Exception:
        self._admin.poll(0)  # delivers what the client's threads reported to the error callback
        return translate(error, doing, log=self._errors)
