"""The cluster suite on both brokers, and what only one of them can do."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import Transient, Unavailable
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.embedded import EmbeddedCluster
from penstock.kafka.errors import BrokerUnavailable
from penstock.kafka.producer import NewRecord, RecordProducer, produce
from tests.behaviour.kafka.cluster import ClusterSuite
from tests.support.kafka import KafkaBroker, KafkaCluster
from tests.support.kafka_client import Sent
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

    def test_a_topic_made_again_has_another_id(self, kafka: KafkaBroker, view: ClusterView, topic: str) -> None:
        before = view.topic_ids([topic])
        kafka.delete_topic(topic)
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
        assert view.find_watermarks([(topic, 0)]).found == {(topic, 0): (0, 0)}
        assert view.find_watermarks([(topic, 0)], committed_only=False).found == {(topic, 0): (0, 1)}
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


def test_a_view_that_is_closed_ends_its_client_and_says_so() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        view = ClusterView(KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap)))
        assert view.watermarks([("t", 0)]) == {("t", 0): (0, 0)}
        client = weakref.ref(view._client)
        view.close()
        view.close()
        assert client() is None, "its threads and connections end with it"
        for ask in (view.topics, lambda: view.find_watermarks([("t", 0)])):
            with pytest.raises(Unavailable, match="closed"):
                ask()


@pytest.mark.kafka
def test_one_partition_without_a_leader_holds_up_no_other() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("t", 6, replication=1)
        cluster.produce("t", [Sent(b"x", partition=p) for p in range(6)])
        places = [("t", p) for p in range(6)]
        with ClusterView(KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap))) as view:
            assert view.watermarks(places) == dict.fromkeys(places, (0, 1))
            victim = cluster.leader("t", 0)
            offline = {("t", p) for p in range(6) if cluster.leader("t", p) is victim}
            victim.kill()
            # At first the leader is named and does not answer, later there is none.
            for _ in range(8):
                began = time.monotonic()
                marks = view.find_watermarks(places)
                assert time.monotonic() - began < 5
                assert marks.found == {place: (0, 1) for place in places if place not in offline}
                assert set(marks.unavailable) == offline
                time.sleep(1.0)
            assert set(marks.unavailable.values()) == {f"{topic}/{p} has no leader" for topic, p in offline}
            began = time.monotonic()
            view.find_watermarks(places)
            assert time.monotonic() - began < 1
        strict = ClusterView(KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap)), timeout=1.0)
        with pytest.raises(BrokerUnavailable, match="has no leader"):
            strict.watermarks(places)
        victim.start()
        until(lambda: view_of(cluster).find_watermarks(places).unavailable == {}, 60, "the partitions to come back")


def view_of(cluster: KafkaCluster) -> ClusterView:
    return ClusterView(KafkaClientConfig.of(ConnectionSpec(bootstrap=cluster.bootstrap)))
