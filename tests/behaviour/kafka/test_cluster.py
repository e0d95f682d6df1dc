"""The cluster suite on both brokers, and what only one of them can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import Transient
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.errors import BrokerUnavailable
from penstock.kafka.producer import NewRecord, RecordProducer, produce
from tests.behaviour.kafka.cluster import ClusterSuite
from tests.support.kafka import KafkaBroker
from tests.support.ports import free_port
from tests.support.waiting import until


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap


class TestEmbedded(ClusterSuite):
    @pytest.fixture
    def bootstrap(self, embedded: str) -> str:
        return embedded

    def test_there_are_three_brokers(self, view: ClusterView) -> None:
        assert len(view.brokers()) == 3

    def test_ids_are_made_of_cluster_and_name(self, view: ClusterView, topic: str) -> None:
        assert view.topic_ids([topic]) == {topic: f"{view.cluster_id()}/{topic}"}


class TestApacheKafka(ClusterSuite):
    @pytest.fixture
    def bootstrap(self, kafka: KafkaBroker) -> str:
        return kafka.bootstrap

    def test_ids_are_the_brokers(self, kafka: KafkaBroker, view: ClusterView, topic: str) -> None:
        assert view.topic_ids([topic]) == {topic: kafka.topic_id(topic)}

    def test_a_topic_made_again_has_another_id(self, view: ClusterView, topic: str) -> None:
        before = view.topic_ids([topic])
        view.delete_topic(topic)
        until(lambda: topic not in view.topics(), 20, f"{topic} is gone")
        view.create_topic(topic)
        assert view.topic_ids([topic]) != before

    def test_offsets_for_times(self, client: KafkaClientConfig, view: ClusterView, topic: str) -> None:
        produce(client, [NewRecord(topic, b"x", partition=0, timestamp=ms) for ms in (1000, 2000, 3000)])
        asked = {(topic, 0): 1500, (topic, 1): 1500}
        assert view.offsets_for_times(asked) == {(topic, 0): 1, (topic, 1): None}
        assert view.offsets_for_times({(topic, 0): 5000}) == {(topic, 0): None}

    def test_members_of_a_group(self, client: KafkaClientConfig, view: ClusterView, topic: str, group: str) -> None:
        settings = {"group.id": group, "client.id": "me", "partition.assignment.strategy": "cooperative-sticky"}
        consumer = Consumer(client.consumer(settings))
        try:
            consumer.subscribe([topic])
            until(lambda: consumer.poll(0.1) or len(consumer.assignment()) == 4, 20, "the group is joined")
            seen = view.group(group)
        finally:
            consumer.close()
        assert (seen.state, seen.assignor) == ("stable", "cooperative-sticky")
        assert [(m.client_id, sorted(m.assigned)) for m in seen.members] == [("me", [(topic, p) for p in range(4)])]

    def test_the_end_is_that_of_finished_transactions(
        self, client: KafkaClientConfig, view: ClusterView, topic: str, group: str
    ) -> None:
        producer = Producer(client.producer({"transactional.id": group}))
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=0)
        producer.flush(20)
        assert view.watermarks([(topic, 0)])[topic, 0] == (0, 0)
        assert view.watermarks([(topic, 0)], committed_only=False)[topic, 0] == (0, 1)
        producer.commit_transaction(20)
        until(lambda: view.watermarks([(topic, 0)])[topic, 0] == (0, 2), 20, "record and marker are visible")


@pytest.fixture
def nowhere() -> KafkaClientConfig:
    return KafkaClientConfig.of(ConnectionSpec(bootstrap=f"127.0.0.1:{free_port()}"))


@pytest.mark.parametrize(
    "ask",
    [
        lambda view: view.topics(),
        lambda view: view.topic_ids(["t"]),
        lambda view: view.watermarks([("t", 0)]),
        lambda view: view.committed("g", [("t", 0)]),
        lambda view: view.group("g"),
        lambda view: view.create_topic("t"),
    ],
)
def test_i06_a_broker_that_is_away_is_an_outage(
    nowhere: KafkaClientConfig, ask: Callable[[ClusterView], object]
) -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        ask(ClusterView(nowhere, timeout=0.5))
    assert isinstance(caught.value, Transient)


def test_i06_records_for_a_broker_that_is_away_fail_in_time(nowhere: KafkaClientConfig) -> None:
    producer = RecordProducer(nowhere, timeout=0.5)
    begin = time.monotonic()
    (result,) = producer.send([NewRecord("t", b"x")])
    assert isinstance(result, BrokerUnavailable)
    assert time.monotonic() - begin < 60, "the client by itself would try for five minutes"


def test_the_embedded_cluster_ends_with_its_block() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        assert cluster.create_topic("t") == 4
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap))
        assert ClusterView(client).topics() == {"t": 4}
    with pytest.raises(BrokerUnavailable):
        ClusterView(client, timeout=0.5).topics()
    with pytest.raises(BrokerUnavailable):
        cluster.create_topic("t")


@pytest.mark.kafka
def test_the_first_question_for_offsets_finds_a_coordinator_in_the_making() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("t")
        view = ClusterView(KafkaClientConfig.of(ConnectionSpec(bootstrap=broker.bootstrap)))
        # The offsets topic is made by this question; the admin client would end the process here.
        assert view.committed("new", [("t", 0)]) == {("t", 0): (None, None)}
        assert view.committed_anywhere("new") == {}
