"""Look-ups at the cluster: topics and their ids, ends of partitions, committed offsets, members of groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
    admin,
)

from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import (
    ABSENT,
    SETTLING,
    UNSUPPORTED,
    BrokerUnavailable,
    ErrorLog,
    GroupBusy,
    UnknownTopic,
    kafka_error,
    translate,
)
from penstock.kafka.single_flight import Merged

_kafka: Any = admin  # its names are re-exported without being declared

Place = tuple[str, int]
"""A topic and a partition of it."""

_EMBEDDED = "mockCluster"
"""Beginning of the cluster id of librdkafka's mock cluster, which has no topic ids and no rights."""
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_NOT_EMPTY = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS}

T = TypeVar("T")
_Futures = dict[Any, Future[Any]]


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
        self._asking: dict[float, Merged[Any]] = {}
        """By the time that is given to the broker."""
        try:
            self._admin: Any = _kafka.AdminClient(config.admin({"error_cb": self._errors}))
        except KafkaException as error:  # a token callback that fails, for instance
            raise translate(error, f"connecting to {config.bootstrap}") from error

    def topics(self, timeout: float | None = None) -> dict[str, int]:
        """All topics that we may see, with their number of partitions."""
        return {name: len(topic.partitions) for name, topic in self._metadata(timeout).topics.items()}

    def existing(self, names: Iterable[str]) -> dict[str, int]:
        """Partition counts of these topics; raises `UnknownTopic` naming the ones that do not exist."""
        wanted, known = list(names), self.topics()
        missing = sorted(name for name in wanted if name not in known)
        if missing:
            raise UnknownTopic(
                f"no such topic: {', '.join(missing)}",
                received=missing,
                allowed=sorted(name for name in known if not name.startswith("__"))[:20],
                hint="`penstock topics create` makes one",
            )
        return {name: known[name] for name in wanted}

    def cluster_id(self, timeout: float | None = None) -> str:
        return self._metadata(timeout).cluster_id or ""

    def brokers(self) -> list[tuple[str, int]]:
        """Addresses that the cluster gives to its clients."""
        return [(broker.host, broker.port) for broker in self._metadata(None).brokers.values()]

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Kafka's ids of the topics; `cluster id/name` where the broker has none. Unknown topics are left out."""
        metadata = self._metadata(None)
        wanted = [name for name in names if name in metadata.topics]
        substitutes = {name: f"{metadata.cluster_id}/{name}" for name in wanted}
        # Only a cluster that surely has no ids gets the substitute: a slow broker must not make a topic look new.
        if not wanted or (metadata.cluster_id or "").startswith(_EMBEDDED):
            return substitutes
        found = self._collected(
            lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout),
            "asking for the ids of topics",
        )
        if found is None:
            return substitutes
        ids = {name: str(topic.topic_id) for name, topic in found.items()}
        return {name: substitutes[name] if given == _ZERO_ID else given for name, given in ids.items()}

    def watermarks(self, places: Sequence[Place], *, committed_only: bool = True) -> dict[Place, tuple[int, int]]:
        """First offset and end of each partition; partitions that do not exist are left out.

        `committed_only`: the end is that of the finished transactions, which is as far as a reader gets.
        """
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        low = self._offsets(dict.fromkeys(places, _kafka.OffsetSpec.earliest()), level)
        high = self._offsets(dict.fromkeys(places, _kafka.OffsetSpec.latest()), level)
        return {place: (low[place], high[place]) for place in places if place in low and place in high}

    def offsets_for_times(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """First offset at or after a time (epoch milliseconds) per partition; None where no record is that young."""
        specs = {place: _kafka.OffsetSpec.for_timestamp(millis) for place, millis in times.items()}
        found = self._offsets(specs, IsolationLevel.READ_UNCOMMITTED)
        return {place: (offset if offset >= 0 else None) for place, offset in found.items()}

    def _offsets(self, specs: Mapping[Place, Any], level: IsolationLevel) -> dict[Place, int]:
        if not specs:
            return {}
        request = {TopicPartition(topic, partition): spec for (topic, partition), spec in specs.items()}
        found = self._collected(
            lambda: self._admin.list_offsets(request, isolation_level=level, request_timeout=self._timeout),
            "asking for offsets",
        )
        return {(at.topic, at.partition): answer.offset for at, answer in (found or {}).items()}

    def committed(self, group: str, places: Sequence[Place]) -> dict[Place, tuple[int | None, str | None]]:
        """Committed offset (None: never) and commit metadata of each partition."""
        if not places:
            return {}

        def ask() -> list[TopicPartition]:
            # A consumer that never joins: the admin client's own question ends the whole process where the group's
            # coordinator is just moving (rd_kafka_handle_OffsetFetch wants a consumer behind it).
            consumer = Consumer(self._config.consumer({"group.id": group, "error_cb": self._errors}))
            try:
                answer = consumer.committed([TopicPartition(*place) for place in places], timeout=self._timeout)
            finally:
                consumer.close()
            for at in answer:
                if at.error is not None and at.error.code() not in ABSENT:
                    raise KafkaException(at.error)
            return answer

        answer = self._answered(ask, f"asking for the offsets of group {group}")
        return {
            (at.topic, at.partition): (at.offset, at.metadata or None) if at.offset >= 0 else (None, None)
            for at in answer or ()
        }

    def committed_anywhere(self, group: str) -> dict[Place, tuple[int | None, str | None]]:
        """The same of every partition for which the group has committed something."""
        everywhere = [(topic, number) for topic, count in self.topics().items() for number in range(count)]
        return {place: at for place, at in self.committed(group, everywhere).items() if at[0] is not None}

    def alter_offsets(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        """Set a group's offsets, with their commit metadata; raises `GroupBusy` unless the group is empty."""
        wanted = [TopicPartition(topic, n, offset, text) for (topic, n), (offset, text) in offsets.items()]

        def ask() -> None:
            # By a consumer that never joins, as above; the broker takes it from a stranger while there are no members.
            consumer = Consumer(self._config.consumer({"group.id": group, "error_cb": self._errors}))
            try:
                consumer.committed(wanted, timeout=self._timeout)  # a commit has no time limit: is the broker there?
                done = consumer.commit(offsets=wanted, asynchronous=False)
            finally:
                consumer.close()
            for at in done or ():
                if at.error is not None:
                    raise KafkaException(at.error)

        try:
            self._answered(ask, f"setting the offsets of group {group}")
        except BrokerUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, KafkaException) and kafka_error(cause).code() in _NOT_EMPTY:
                raise GroupBusy(f"the group {group} has members; nothing was changed", received=group) from error
            raise

    def group(self, name: str) -> GroupView:
        """State, assignor and members of a consumer group."""
        found = self._described(name)
        if found is None:
            return GroupView("unknown", "", ())
        members = tuple(
            GroupMember(
                member.member_id,
                member.client_id,
                member.host,
                tuple((at.topic, at.partition) for at in member.assignment.topic_partitions),
            )
            for member in found.members
        )
        return GroupView(found.state.name.lower(), found.partition_assignor or "", members)

    def group_members(self, name: str) -> tuple[GroupMember, ...]:
        """Members of a consumer group; none where the broker cannot say."""
        return self.group(name).members

    def may_join_group(self, name: str) -> bool:
        """Whether the broker lets us join the group; True where it cannot say. The group is not joined."""
        return _may_read(self._described(name))

    def _described(self, group: str) -> Any:
        def ask() -> Any:
            wanted = {"include_authorized_operations": True, "request_timeout": self._timeout}
            return self._admin.describe_consumer_groups([group], **wanted)[group].result(self._timeout + 1)

        return self._answered(ask, f"describing group {group}")

    def may_read_topic(self, name: str) -> bool:
        """Whether the broker lets us read the topic; True where it cannot say."""
        if self.cluster_id().startswith(_EMBEDDED):
            return True

        def ask() -> Any:
            wanted = {"include_authorized_operations": True, "request_timeout": self._timeout}
            return self._admin.describe_topics(TopicCollection([name]), **wanted)[name].result(self._timeout + 1)

        return _may_read(self._answered(ask, f"describing topic {name}"))

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic and wait for its leaders; raises `ConfigError` where it exists.

        The embedded cluster gives it four partitions, whatever is asked for.
        """
        metadata = self._metadata(None)
        if name in metadata.topics:
            raise ConfigError(f"topic {name} exists", received=name)
        if (metadata.cluster_id or "").startswith(_EMBEDDED):
            self._admin.list_topics(name, timeout=self._timeout)
        else:
            new = _kafka.NewTopic(name, partitions, replication, config=dict(config or {}))
            self._answered(
                lambda: self._admin.create_topics([new], request_timeout=self._timeout)[name].result(self._timeout + 1),
                f"making topic {name}",
            )
        self._await_leaders(name)

    def _await_leaders(self, name: str) -> None:
        deadline = Deadline.after(self._timeout)
        while True:
            topic = self._metadata(None).topics.get(name)
            if topic is not None and topic.partitions and all(p.leader >= 0 for p in topic.partitions.values()):
                return
            if deadline.expired:
                raise BrokerUnavailable(f"topic {name} was made, but has no leaders after {self._timeout:g} s")
            time.sleep(0.05)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all it holds."""
        self._answered(
            lambda: self._admin.delete_topics([name], request_timeout=self._timeout)[name].result(self._timeout + 1),
            f"deleting topic {name}",
        )

    def _metadata(self, timeout: float | None) -> Any:
        """Of the whole cluster, which takes a moment to be put together where it has thousands of partitions."""
        limit = self._timeout if timeout is None else timeout
        doing = f"asking {self._config.bootstrap} for its topics"
        ask = Merged(lambda: self._answered(lambda: self._admin.list_topics(timeout=limit), doing))
        return self._asking.setdefault(limit, ask)()

    def _collected(self, ask: Callable[[], _Futures], doing: str) -> dict[Any, Any] | None:
        """Results of futures by their key; what does not exist is left out. None as of `_answered`."""

        def collect() -> dict[Any, Any]:
            found = {}
            for key, future in ask().items():
                try:
                    found[key] = future.result(self._timeout + 1)
                except KafkaException as error:
                    if kafka_error(error).code() not in ABSENT:
                        raise
            return found

        return self._answered(collect, doing)

    def _answered(self, ask: Callable[[], T], doing: str) -> T | None:
        """Ask, again while a leader or coordinator is settling in; None where the broker has no such question."""
        deadline = Deadline.after(self._timeout)
        while True:
            try:
                return ask()
            except KafkaException as error:
                code = kafka_error(error).code()
                if code in UNSUPPORTED:
                    return None
                if code not in SETTLING or deadline.expired:
                    self._admin.poll(0)  # delivers what the client's threads reported to the error callback
                    raise translate(error, doing, log=self._errors) from error
            except TimeoutError as error:
                raise BrokerUnavailable(f"{doing}: no answer within {self._timeout:g} s") from error
            except (ValueError, TypeError) as error:
                raise ConfigError(f"{doing}: {error}") from error
            time.sleep(0.05)


def _may_read(described: Any) -> bool:
    rights = described.authorized_operations if described is not None else None
    return not rights or _kafka.AclOperation.READ in rights
