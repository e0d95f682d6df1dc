"""The `kafka` action, against the embedded cluster and a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from penstock.act.registry import actions
from penstock.config.spec import ConnectionSpec, KafkaSourceConfig
from penstock.core.errors import ConfigError, Terminal, Unavailable
from penstock.core.plugin import PipelineContext
from penstock.kafka.embedded import EmbeddedCluster
from tests.support.events import make_event
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until


def context(bootstrap: str) -> PipelineContext:
    return PipelineContext("p", source=KafkaSourceConfig(connection=ConnectionSpec(bootstrap=bootstrap)))


def read_all(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Message] = []

        def enough() -> bool:
            found.extend(message for message in consumer.consume(count, 0.2) if not message.error())
            return len(found) >= count

        until(enough, 30, lambda: f"{len(found)} of {count} messages")
        return found
    finally:
        consumer.close()


class KafkaActionSuite:
    """What holds for every kind of cluster."""

    @pytest.fixture
    def bootstrap(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def target(self) -> str:
        raise NotImplementedError

    def test_key_value_and_headers_go_on_as_they_were_read(self, bootstrap: str, target: str) -> None:
        action: Any = actions.create("kafka", {"topic": target}, context(bootstrap))
        headers = [("a", b"1"), ("a", b"\xff"), ("b", None)]
        event = make_event({"n": 1}, key=b"\x00\xfe", headers=headers).replaced({"n": 2})
        assert action.act_batch([event]) == [None]
        action.close()
        [message] = read_all(bootstrap, target, 1)
        assert (message.key(), message.value(), message.headers()) == (b"\x00\xfe", b'{"n":1}', headers)

    def test_expressions_make_key_value_headers_and_topic(self, bootstrap: str, target: str) -> None:
        config = {
            "topic": {"cel": "event.to"},
            "key": "event.id",
            "value": "{'id': event.id, 'from': topic}",
            "headers": {"offset": "string(offset)", "none": "null"},
        }
        action: Any = actions.create("kafka", config, context(bootstrap))
        wrong = make_event({"id": "x", "to": "no topic!"})
        lacking = make_event({"to": target})
        good = make_event({"id": "k7", "to": target})
        first, second, third = action.act_batch([wrong, lacking, good])
        action.close()
        assert "is no topic's name" in str(first)
        assert "no field 'id'" in str(second)
        assert third is None
        [message] = read_all(bootstrap, target, 1)
        assert message.key() == b"k7"
        assert json.loads(message.value() or b"") == {"id": "k7", "from": "orders"}
        assert message.headers() == [("offset", b"41"), ("none", None)]

    def test_the_transformed_value_and_tombstones(self, bootstrap: str, target: str) -> None:
        for source, sent in (("event", b'{"n":2}'), ("null", None)):
            action: Any = actions.create("kafka", {"topic": target, "value": source}, context(bootstrap))
            assert action.act_batch([make_event({"n": 1}, key=b"k").replaced({"n": 2})]) == [None]
            action.close()
            assert sent in [message.value() for message in read_all(bootstrap, target, 1 if sent else 2)]

    def test_events_of_a_batch_stay_in_order(self, bootstrap: str, target: str) -> None:
        action: Any = actions.create("kafka", {"topic": target}, context(bootstrap))
        assert action.act_batch([make_event(n, key=b"same") for n in range(2_000)]) == [None] * 2_000
        action.close()
        assert [json.loads(m.value() or b"") for m in read_all(bootstrap, target, 2_000)] == list(range(2_000))


class TestEmbedded(KafkaActionSuite):
    @pytest.fixture
    def cluster(self) -> Iterator[EmbeddedCluster]:
        with EmbeddedCluster() as cluster:
            yield cluster

    @pytest.fixture
    def bootstrap(self, cluster: EmbeddedCluster) -> str:
        return cluster.bootstrap

    @pytest.fixture
    def target(self, cluster: EmbeddedCluster) -> str:
        cluster.create_topic("target")
        return "target"


class TestApacheKafka(KafkaActionSuite):
    @pytest.fixture
    def bootstrap(self, kafka: KafkaBroker) -> str:
        return kafka.bootstrap

    @pytest.fixture
    def target(self, topic: Callable[..., str]) -> str:
        return topic(partitions=2)

    def test_a_record_the_broker_refuses_fails_alone(self, bootstrap: str, topic: Callable[..., str]) -> None:
        small = topic(config={"max.message.bytes": "1000"})
        action: Any = actions.create("kafka", {"topic": small}, context(bootstrap))
        big = make_event("x" * 5_000, key=b"b")
        first, refused, last = action.act_batch([make_event("ok"), big, make_event("ok")])
        [fine] = action.act_batch([make_event("ok")])
        action.close()
        assert isinstance(refused, Terminal)
        assert not isinstance(refused, Unavailable)
        assert (first, last, fine) == (None, None, None)


def test_a_broker_that_is_away_is_an_outage_and_its_return_is_noticed() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("target", 1)
        action: Any = actions.create("kafka", {"topic": "target", "timeout": "3s"}, context(broker.bootstrap))
        assert action.act_batch([make_event(1)]) == [None]
        broker.kill()
        results = action.act_batch([make_event(2), make_event(3)])
        assert all(isinstance(result, Unavailable) for result in results), results
        broker.restart()
        until(lambda: action.act_batch([make_event(4)]) == [None], 60, "the action never noticed the broker's return")
        action.close()
        values = [json.loads(message.value() or b"") for message in read_all(broker.bootstrap, "target", 2)]
    assert (values[0], values[-1]) == (1, 4)


def test_the_connection_may_be_its_own() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("target")
        config = {"topic": "target", "connection": {"bootstrap": cluster.bootstrap}}
        action: Any = actions.create("kafka", config, PipelineContext("p"))
        assert action.act_batch([make_event(1)]) == [None]
        action.close()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"topic": "no spaces"}, "a topic's name has letters"),
        ({"topic": "t", "key": "evnt.id"}, "did you mean `event`"),
        ({"topic": "t", "conection": {}}, "did you mean `connection`"),
        ({"topic": "t"}, "`connection` is required"),
        ({}, "`topic` is required"),
    ],
)
def test_configuration_mistakes(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        actions.create("kafka", config, PipelineContext("p"))
    assert said in str(caught.value)
