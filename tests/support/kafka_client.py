"""What tests ask of a Kafka cluster: topics, records, offsets, groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.waiting import until

TIMEOUT_S = 20.0
_SETTLING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
)


class Sent(NamedTuple):
    """A record to produce, where its value alone is not enough."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int = -1
    timestamp: int = 0


class KafkaClient:
    """Client side of a cluster; brokers and clusters of the tests are such clients of themselves."""

    bootstrap: str
    _last_asker: tuple[str, Consumer] | None = None

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0})

    def _answered(self, ask: Callable[[], Future[Any]]) -> Any:
        """Ask, again while the broker says that a coordinator or leader is still settling in."""
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return ask().result(TIMEOUT_S)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.NOT_COORDINATOR:
                    # The library remembers for minutes where a coordinator was, whatever the broker says.
                    self.__dict__.pop("admin", None)
                if code not in _SETTLING or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    @cached_property
    def producer(self) -> Producer:
        settings = {"linger.ms": 5, "acks": "all", "enable.idempotence": True, "reconnect.backoff.max.ms": 500}
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **settings})

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None, replication: int = 1
    ) -> str:
        """Make a topic and wait until every partition has a leader."""
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config or {}))
        self.admin.create_topics([new])[name].result(TIMEOUT_S)
        until(lambda: self._led(name) == partitions, TIMEOUT_S, f"leaders for topic {name}")
        return name

    def _led(self, name: str) -> int:
        topic = self.admin.list_topics(name, timeout=TIMEOUT_S).topics.get(name)
        if topic is None or topic.error:
            return 0
        return sum(1 for partition in topic.partitions.values() if partition.leader >= 0)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(TIMEOUT_S)
        until(lambda: name not in self.admin.list_topics(timeout=TIMEOUT_S).topics, TIMEOUT_S, f"{name} is gone")

    def add_partitions(self, name: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(TIMEOUT_S)
        until(lambda: self._led(name) == total, TIMEOUT_S, f"{total} partitions of {name}")

    def topic_id(self, name: str) -> str:
        return str(self.admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S).topic_id)

    def produce(self, topic: str, records: Iterable[bytes | Sent | None]) -> list[tuple[int, int]]:
        """Produce values (None is a tombstone) or whole records; returns the (partition, offset) of each."""
        places: list[tuple[int, int] | None] = []
        failures: list[KafkaError] = []
        for i, given in enumerate(records):
            record = given if isinstance(given, Sent) else Sent(given)
            places.append(None)

            def delivered(error: KafkaError | None, message: Message, i: int = i) -> None:
                if error:
                    failures.append(error)
                else:
                    places[i] = (message.partition() or 0, message.offset() or 0)

            self._send(topic, record, delivered)
        self.producer.flush(60)
        if failures:
            raise KafkaException(failures[0])
        missing = places.count(None)
        assert not missing, f"{missing} records were not acknowledged"
        return [place for place in places if place is not None]

    def _send(self, topic: str, record: Sent, delivered: Any) -> None:
        while True:
            try:
                self.producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    on_delivery=delivered,
                )
            except BufferError:
                self.producer.poll(0.1)
            else:
                self.producer.poll(0)
                return

    def _partitions(self, topic: str) -> list[int]:
        return sorted(self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)

    def _offsets_at(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        def ask(at: At) -> int:
            return int(self._answered(lambda: self.admin.list_offsets({at: spec})[at]).offset)

        return {p: ask(At(topic, p)) for p in self._partitions(topic)}

    def end_offsets(self, topic: str) -> dict[int, int]:
        return self._offsets_at(topic, OffsetSpec.latest())

    def start_offsets(self, topic: str) -> dict[int, int]:
        return self._offsets_at(topic, OffsetSpec.earliest())

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Drop the records below the given offset of each partition, as retention would."""
        asked = self.admin.delete_records([At(topic, p, offset) for p, offset in before.items()])
        for answer in asked.values():
            answer.result(TIMEOUT_S)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Committed offsets of a group; partitions without one are left out."""
        return {(at.topic, at.partition): at.offset for at in self._committed(group)}

    def offset_metadata(self, group: str) -> dict[tuple[str, int], str]:
        return {(at.topic, at.partition): at.metadata or "" for at in self._committed(group)}

    def _committed(self, group: str) -> list[At]:
        places = [
            At(name, p)
            for name, topic in self.admin.list_topics(timeout=TIMEOUT_S).topics.items()
            for p in topic.partitions
        ]
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                found = self._asker(group).committed(places, timeout=TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() not in _SETTLING or time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return [at for at in found if at.offset >= 0]

    def _asker(self, group: str) -> Consumer:
        """A consumer that never joins: the admin client's question for offsets ends the process (a null pointer) where
        the coordinator is just moving."""
        known, asker = self._last_asker or (None, None)
        if asker is None or known != group:
            asker = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
            self._last_asker = (group, asker)
        return asker

    def set_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Alter a group's offsets; the group must have no members."""
        wanted = [At(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        request = ConsumerGroupTopicPartitions(group, wanted)
        self._answered(lambda: self.admin.alter_consumer_group_offsets([request])[group])

    def delete_group(self, group: str) -> None:
        self._answered(lambda: self.admin.delete_consumer_groups([group])[group])

    def members(self, group: str) -> dict[str, list[tuple[str, int]]]:
        """Member id → the partitions it owns."""
        answer = self._answered(lambda: self.admin.describe_consumer_groups([group])[group])
        return {
            member.member_id: [(at.topic, at.partition) for at in member.assignment.topic_partitions]
            for member in answer.members
        }

    def lag(self, group: str, topic: str) -> int:
        """Records of the topic that the group has not committed."""
        committed = self.offsets(group)
        start = self.start_offsets(topic)
        return sum(end - committed.get((topic, p), start[p]) for p, end in self.end_offsets(topic).items())

    def read(self, topic: str, count: int, deadline_s: float = 30.0) -> list[Message]:
        """The first `count` records of a topic, from its start; fails when they do not come in time."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "tests-read", "enable.auto.commit": False}
        )
        try:
            consumer.assign([At(topic, p, 0) for p in self._partitions(topic)])
            found: list[Message] = []
            end = time.monotonic() + deadline_s
            while len(found) < count and time.monotonic() < end:
                found += [message for message in consumer.consume(count - len(found), 0.2) if not message.error()]
        finally:
            consumer.close()
        assert len(found) == count, f"{len(found)} of {count} records in {topic} after {deadline_s:g} s"
        return found

    def add_scram_user(self, user: str, password: str) -> None:
        """Add or change a SCRAM-SHA-512 user at run time."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, how, password.encode())
        self.admin.alter_user_scram_credentials([change])[user].result(TIMEOUT_S)
