"""Requests to a cluster: topics and their ids, ends of partitions, committed offsets, groups and their members."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

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
from penstock.core.errors import ConfigError, Unavailable
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
from penstock.kafka.single_flight import SingleFlight
from penstock.kafka.topic_identity import substitute_id

_kafka: Any = admin  # its names are re-exported without being declared

Place = tuple[str, int]
"""A topic and a partition of it."""

_EMBEDDED = "mockCluster"
"""Beginning of the cluster id of librdkafka's mock cluster, which has no topic ids and no rights."""
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_ASKING_FOR_OFFSETS = "asking for offsets"
_NOT_EMPTY = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS}

_STRAGGLERS = 1.0
"""Seconds to wait for the other leaders once the first has answered, or failed: one silent broker must not hold up what
the rest of the cluster knows."""

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
    """`stable`, `empty`, `dead`, `preparing_rebalancing`, …; `unknown` where the broker cannot tell."""
    assignor: str
    """Partition assignor the members agreed on; empty without members."""
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class Watermarks:
    """First offset and end of partitions, as far as their leaders answer."""

    found: dict[Place, tuple[int, int]] = field(default_factory=dict)
    unavailable: dict[Place, str] = field(default_factory=dict)
    """Partitions that exist, and why there is no answer for them. The same request may succeed later."""


class ClusterView:
    """Requests to one cluster; safe to share between threads. Any may raise `Unavailable` or `ConfigError`, and blocks
    for up to `timeout` seconds. `close` ends its client."""

    def __init__(self, config: KafkaClientConfig, timeout: float = 10.0) -> None:
        self._config = config
        self._timeout = timeout
        self._errors = ErrorLog()
        self._metadata_requests: dict[float, SingleFlight[Any]] = {}
        """By their time-out."""
        self._client: Any = self._connected()

    def _connected(self) -> Any:
        try:
            return _kafka.AdminClient(self._config.admin({"error_cb": self._errors}))
        except KafkaException as error:  # a token callback that fails, for instance
            raise translate(error, f"connecting to {self._config.bootstrap}") from error

    @property
    def _admin(self) -> Any:
        client = self._client
        if client is None:
            raise Unavailable(f"the connection to {self._config.bootstrap} was closed")
        return client

    def close(self) -> None:
        """End the client with its threads and connections; requests of other threads may fail. Later
        ones raise `Unavailable`."""
        # The library has no close: the client ends when nothing refers to it.
        self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def topics(self, timeout: float | None = None) -> dict[str, int]:
        """All topics that the user may see, with their number of partitions."""
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
        substitutes = {name: substitute_id(metadata.cluster_id, name) for name in wanted}
        # Only a cluster that is known to have no ids gets the substitute: a slow broker must not make a topic look new.
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

        Raises `BrokerUnavailable` when the leader of any does not answer within the time-out: a caller that can go on
        without some of them uses `find_watermarks`.

        `committed_only`: the end is the last stable offset, which is as far as a reader of committed records gets.
        Otherwise it is the high watermark, which lies beyond that while a transaction is open: an offset between the
        two is not beyond the end of the log.
        """
        deadline, found = Deadline.after(self._timeout), dict[Place, tuple[int, int]]()
        wanted = list(places)
        while wanted:
            marks = self.find_watermarks(wanted, committed_only=committed_only)
            found |= marks.found
            wanted = list(marks.unavailable)
            if wanted and deadline.expired:
                raise BrokerUnavailable(
                    f"no offsets of {len(wanted)} partitions: {'; '.join(sorted(marks.unavailable.values())[:3])}",
                    received=[f"{topic}/{partition}" for topic, partition in wanted[:20]],
                )
            if wanted:
                time.sleep(0.05)
        return {place: found[place] for place in places if place in found}

    def find_watermarks(self, places: Sequence[Place], *, committed_only: bool = True) -> Watermarks:
        """The same for the partitions whose leaders answer; it names those that do not. A partition without a leader
        takes no time, a leader that does not answer takes one second more than the others.

        Raises `Unavailable` only where the cluster itself does not answer.
        """
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        low, without_low = self._offsets(dict.fromkeys(places, _kafka.OffsetSpec.earliest()), level)
        high, without_high = self._offsets(dict.fromkeys(low, _kafka.OffsetSpec.latest()), level)
        return Watermarks({place: (low[place], end) for place, end in high.items()}, without_low | without_high)

    def offsets_for_times(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """First offset at or after a time (epoch milliseconds) per partition; None where no record is that young.

        Raises `BrokerUnavailable` where a leader does not answer.
        """
        specs = {place: _kafka.OffsetSpec.for_timestamp(millis) for place, millis in times.items()}
        found, missing = self._offsets(specs, IsolationLevel.READ_UNCOMMITTED)
        if missing:
            raise BrokerUnavailable(next(iter(missing.values())), received=[f"{t}/{p}" for t, p in missing][:20])
        return {place: (offset if offset >= 0 else None) for place, offset in found.items()}

    def _offsets(self, specs: Mapping[Place, Any], level: IsolationLevel) -> tuple[dict[Place, int], dict[Place, str]]:
        """Offsets by partition, and reasons where there is none now. Partitions that do not exist are left out."""
        found: dict[Place, int] = {}
        missing: dict[Place, str] = {}
        deadline, wanted = Deadline.after(min(self._timeout, _STRAGGLERS)), set(specs)
        while wanted:
            missing = {}
            futures = self._request_offsets({place: specs[place] for place in wanted}, level, missing)
            settling = self._take_offsets(futures, found, missing)
            wanted = settling if not deadline.expired else set()
            if wanted:
                time.sleep(0.05)
        return found, missing

    def _request_offsets(
        self, specs: Mapping[Place, Any], level: IsolationLevel, missing: dict[Place, str]
    ) -> dict[Future[Any], Place]:
        """One request per leader: the client holds back the answers to a request until the slowest leader's is there,
        and for a partition without a leader until the time-out."""
        topics = self._metadata(None).topics
        by_leader: dict[int, dict[TopicPartition, Any]] = {}
        for (topic, partition), spec in specs.items():
            at = topics[topic].partitions.get(partition) if topic in topics else None
            if at is not None and at.leader >= 0:
                by_leader.setdefault(at.leader, {})[TopicPartition(topic, partition)] = spec
            elif at is not None:
                missing[topic, partition] = f"{topic}/{partition} has no leader"
        futures: dict[Future[Any], Place] = {}
        for request in by_leader.values():
            ask = {"isolation_level": level, "request_timeout": self._timeout}
            answers = self._answered(lambda r=request, a=ask: self._admin.list_offsets(r, **a), _ASKING_FOR_OFFSETS)  # type: ignore[misc]  # the defaults bind them
            futures |= {future: (at.topic, at.partition) for at, future in (answers or {}).items()}
        return futures

    def _take_offsets(
        self, futures: Mapping[Future[Any], Place], found: dict[Place, int], missing: dict[Place, str]
    ) -> set[Place]:
        """Sort the answers; returns the partitions whose leader is changing just now."""
        settling: set[Place] = set()
        wait(futures, self._timeout + 1, FIRST_COMPLETED)
        done, late = wait(futures, _STRAGGLERS)
        for future in late:
            missing[futures[future]] = f"{_name(futures[future])}: its leader does not answer"
        for future in done:
            place = futures[future]
            try:
                found[place] = future.result().offset
            except KafkaException as error:
                code = kafka_error(error).code()
                if code in ABSENT or code in UNSUPPORTED:
                    continue
                trouble = translate(error, f"{_ASKING_FOR_OFFSETS} of {_name(place)}", log=self._errors)
                if not isinstance(trouble, Unavailable):
                    raise trouble from error
                missing[place] = trouble.message
                if code in SETTLING:
                    settling.add(place)
        return settling

    def committed(self, group: str, places: Sequence[Place]) -> dict[Place, tuple[int | None, str | None]]:
        """Committed offset (None: never) and commit metadata of each partition."""
        if not places:
            return {}

        def ask() -> list[TopicPartition]:
            # By a consumer that never joins: the admin client's own request ends the whole process while the group's
            # coordinator is moving (rd_kafka_handle_OffsetFetch needs a consumer handle).
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
        """Committed offset and metadata of every partition for which the group has committed something."""
        everywhere = [(topic, number) for topic, count in self.topics().items() for number in range(count)]
        return {place: at for place, at in self.committed(group, everywhere).items() if at[0] is not None}

    def alter_offsets(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        """Set a group's offsets, with their commit metadata; raises `GroupBusy` unless the group is empty."""
        wanted = [TopicPartition(topic, n, offset, text) for (topic, n), (offset, text) in offsets.items()]

        def ask() -> None:
            # By a consumer that never joins, as above: the broker accepts its commit while the group has no members.
            consumer = Consumer(self._config.consumer({"group.id": group, "error_cb": self._errors}))
            try:
                consumer.committed(wanted, timeout=self._timeout)  # has a time limit, which a commit has not
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

    def groups(self, prefix: str) -> dict[str, list[str]]:
        """Groups whose names begin with a prefix, and the topics for which each has committed offsets."""
        doing = f"asking {self._config.bootstrap} for its groups"
        answer = self._answered(
            lambda: self._admin.list_consumer_groups(request_timeout=self._timeout).result(self._timeout + 1), doing
        )
        names = sorted(group.group_id for group in answer.valid if group.group_id.startswith(prefix)) if answer else []
        return {name: sorted({topic for topic, _ in self.committed_anywhere(name)}) for name in names}

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
        """Members of a consumer group; none where the broker does not support the request."""
        return self.group(name).members

    def may_join_group(self, name: str) -> bool:
        """Whether the user may join the group; True where the broker does not tell. The group is not joined."""
        return _may_read(self._described(name))

    def _described(self, group: str) -> Any:
        def ask() -> Any:
            wanted = {"include_authorized_operations": True, "request_timeout": self._timeout}
            return self._admin.describe_consumer_groups([group], **wanted)[group].result(self._timeout + 1)

        return self._answered(ask, f"describing group {group}")

    def may_read_topic(self, name: str) -> bool:
        """Whether the user may read the topic; True where the broker does not tell."""
        if self.cluster_id().startswith(_EMBEDDED):
            return True

        def ask() -> Any:
            wanted = {"include_authorized_operations": True, "request_timeout": self._timeout}
            return self._admin.describe_topics(TopicCollection([name]), **wanted)[name].result(self._timeout + 1)

        return _may_read(self._answered(ask, f"describing topic {name}"))

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = -1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait for its leaders; raises `ConfigError` where it exists.

        The embedded cluster gives every topic four partitions.
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
                f"creating topic {name}",
            )
        self._await_leaders(name)

    def _await_leaders(self, name: str) -> None:
        deadline = Deadline.after(self._timeout)
        while True:
            topic = self._metadata(None).topics.get(name)
            if topic is not None and topic.partitions and all(p.leader >= 0 for p in topic.partitions.values()):
                return
            if deadline.expired:
                raise BrokerUnavailable(f"topic {name} was created, but has no leaders after {self._timeout:g} s")
            time.sleep(0.05)

    def _metadata(self, timeout: float | None) -> Any:
        """Of the whole cluster. Hundreds of pipelines that start together share the requests, which take the broker a
        while where there are thousands of partitions."""
        limit = self._timeout if timeout is None else timeout
        doing = f"asking {self._config.bootstrap} for its topics"
        request = SingleFlight(lambda: self._answered(lambda: self._admin.list_topics(timeout=limit), doing))
        return self._metadata_requests.setdefault(limit, request)()

    def _collected(self, ask: Callable[[], _Futures], doing: str) -> dict[Any, Any] | None:
        """Results of futures by their key; what does not exist is left out. None as for `_answered`."""

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
        """Send a request, again while a leader or coordinator changes; None where the broker does not support it."""
        deadline = Deadline.after(self._timeout)
        while True:
            try:
                return ask()
            except KafkaException as error:
                code = kafka_error(error).code()
                if code in UNSUPPORTED:
                    return None
                if code == KafkaError.NOT_COORDINATOR and self._client is not None:
                    # The library remembers for minutes where a coordinator was, whatever the broker says.
                    self._client = self._connected()
                if code not in SETTLING or deadline.expired:
                    self._admin.poll(0)  # delivers what the client's threads reported to the error callback
                    raise translate(error, doing, log=self._errors) from error
            except TimeoutError as error:
                raise BrokerUnavailable(f"{doing}: no answer within {self._timeout:g} s") from error
            except (ValueError, TypeError) as error:
                raise ConfigError(f"{doing}: {error}") from error
            time.sleep(0.05)


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


def _may_read(described: Any) -> bool:
    rights = described.authorized_operations if described is not None else None
    return not rights or _kafka.AclOperation.READ in rights
