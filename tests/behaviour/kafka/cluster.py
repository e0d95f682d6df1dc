"""What Penstock asks of a cluster, the same of the embedded one and of Apache Kafka."""

from __future__ import annotations

import itertools
import os
import time

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import ConfigError
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import GroupBusy, UnknownTopic
from penstock.kafka.producer import NewRecord, RecordProducer, RecordRefused, produce
from tests.support.waiting import until

_numbers = itertools.count(1)


class ClusterSuite:
    """Inherited by each broker; a subclass gives `bootstrap`."""

    @pytest.fixture
    def client(self, bootstrap: str) -> KafkaClientConfig:
        return KafkaClientConfig.of(ConnectionSpec(bootstrap=bootstrap))

    @pytest.fixture
    def view(self, client: KafkaClientConfig) -> ClusterView:
        return ClusterView(client)

    @pytest.fixture
    def topic(self, view: ClusterView) -> str:
        """A topic of four partitions."""
        name = f"suite-{os.getpid()}-{next(_numbers)}"
        view.create_topic(name, partitions=4)
        return name

    @pytest.fixture
    def group(self) -> str:
        return f"suite-group-{os.getpid()}-{next(_numbers)}"

    def test_topics_and_their_partitions(self, view: ClusterView, topic: str) -> None:
        assert view.topics()[topic] == 4
        assert view.existing([topic]) == {topic: 4}

    def test_a_missing_topic_is_named(self, view: ClusterView, topic: str) -> None:
        with pytest.raises(UnknownTopic) as caught:
            view.existing([topic, "no-such-topic"])
        assert caught.value.received == ["no-such-topic"]

    def test_a_topic_is_made_once(self, view: ClusterView, topic: str) -> None:
        with pytest.raises(ConfigError, match="exist"):
            view.create_topic(topic, partitions=4)

    def test_ids_are_steady_and_leave_unknown_topics_out(self, view: ClusterView, topic: str) -> None:
        ids = view.topic_ids([topic, "no-such-topic"])
        assert list(ids) == [topic]
        assert ids[topic]
        assert view.topic_ids([topic]) == ids

    def test_watermarks(self, client: KafkaClientConfig, view: ClusterView, topic: str) -> None:
        produce(client, [NewRecord(topic, b"x", partition=1), NewRecord(topic, b"y", partition=1)])
        found = view.watermarks([(topic, 0), (topic, 1), ("no-such-topic", 0)])
        assert found == {(topic, 0): (0, 0), (topic, 1): (0, 2)}
        assert view.watermarks([]) == {}

    def test_committed_offsets_with_their_metadata(
        self, client: KafkaClientConfig, view: ClusterView, topic: str, group: str
    ) -> None:
        produce(client, [NewRecord(topic, b"x", partition=0)] * 3)
        consumer = Consumer(client.consumer({"group.id": group}))
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 2, metadata="pending")], asynchronous=False)
        finally:
            consumer.close()
        assert view.committed(group, [(topic, 0), (topic, 1)]) == {(topic, 0): (2, "pending"), (topic, 1): (None, None)}
        assert view.committed(group, []) == {}

    def test_offsets_of_an_empty_group_are_set_with_their_metadata_and_those_of_a_live_one_are_not(
        self, client: KafkaClientConfig, view: ClusterView, topic: str, group: str
    ) -> None:
        produce(client, [NewRecord(topic, b"x", partition=0)] * 5)
        view.alter_offsets(group, {(topic, 0): (4, "pending"), (topic, 1): (0, "")})
        assert view.committed_anywhere(group) == {(topic, 0): (4, "pending"), (topic, 1): (0, None)}
        view.alter_offsets(group, {(topic, 0): (2, "")})
        consumer = Consumer(client.consumer({"group.id": group}))
        try:
            consumer.subscribe([topic])
            until(lambda: consumer.poll(0.1) or consumer.assignment(), 30, "the consumer to join")
            with pytest.raises(GroupBusy):
                view.alter_offsets(group, {(topic, 0): (0, "")})
        finally:
            consumer.close()
        assert view.committed(group, [(topic, 0)]) == {(topic, 0): (2, None)}

    def test_a_group_nobody_knows(self, view: ClusterView, topic: str, group: str) -> None:
        assert view.committed(group, [(topic, 0)]) == {(topic, 0): (None, None)}
        assert view.group_members(group) == ()

    def test_records_arrive_as_they_were_sent(self, client: KafkaClientConfig, topic: str) -> None:
        headers: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None), ("h", b"\xff")]
        sent = [
            NewRecord(topic, b"v", b"\x00key", headers, 2, 1_700_000_000_000),
            NewRecord(topic, None, b"k", None, 2),
        ]
        assert produce(client, sent) == [(2, 0), (2, 1)]
        first, second = self.read(client, topic, 2, 2)
        assert (first.key(), first.value(), first.headers()) == (b"\x00key", b"v", headers)
        assert first.timestamp()[1] == 1_700_000_000_000
        assert (second.key(), second.value()) == (b"k", None)

    def test_records_of_one_key_stay_in_order(self, client: KafkaClientConfig, topic: str) -> None:
        placed = produce(client, [NewRecord(topic, str(n).encode(), b"same") for n in range(12_000)])
        (partition,) = {partition for partition, _ in placed}
        assert [offset for _, offset in placed] == list(range(12_000))
        assert [m.value() for m in self.read(client, topic, partition, 12_000)][:3] == [b"0", b"1", b"2"]

    def test_a_record_that_is_too_large_fails_alone(self, client: KafkaClientConfig, topic: str) -> None:
        with RecordProducer(client) as producer:
            results = producer.send([NewRecord(topic, b"x" * 3_000_000), NewRecord(topic, b"small", partition=0)])
        assert isinstance(results[0], RecordRefused)
        assert results[1] == (0, 0)

    def read(self, client: KafkaClientConfig, topic: str, partition: int, count: int) -> list[Message]:
        consumer = Consumer(client.consumer({"group.id": "unused"}))
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            found: list[Message] = []
            end = time.monotonic() + 20
            while len(found) < count and time.monotonic() < end:
                found += consumer.consume(count - len(found), 0.2)
            return found
        finally:
            consumer.close()
