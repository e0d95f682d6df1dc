"""The tests' own broker does what the other tests rely on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.support.kafka import KafkaBroker, KafkaCluster
from tests.support.kafka_client import Sent


def test_records_come_back_as_sent(kafka: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    sent = Sent(b"\x00value", key=b"\xffkey", headers=[("a", b"1"), ("a", None)], partition=1, timestamp=1234)
    places = kafka.produce(name, [sent, Sent(None, key=b"k", partition=0)])
    assert places == [(1, 0), (0, 0)]
    by_partition = {message.partition(): message for message in kafka.read(name, 2)}
    whole = by_partition[1]
    assert (whole.value(), whole.key(), whole.headers()) == (sent.value, sent.key, sent.headers)
    assert whole.timestamp() == (1, 1234)
    assert by_partition[0].value() is None
    assert kafka.end_offsets(name) == {0: 1, 1: 1}


def test_offsets_of_a_group(kafka: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(partitions=2)
    kafka.produce(name, [Sent(b"x", partition=0)] * 5)
    assert kafka.offsets(name) == {}
    kafka.set_offsets(name, {(name, 0): 3})
    assert kafka.offsets(name) == {(name, 0): 3}
    assert kafka.lag(name, name) == 2
    kafka.delete_records(name, {0: 4})
    assert kafka.start_offsets(name)[0] == 4


def test_a_topic_made_again_has_another_id(kafka: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic()
    first = kafka.topic_id(name)
    kafka.delete_topic(name)
    kafka.create_topic(name, 3)
    assert kafka.topic_id(name) != first
    kafka.add_partitions(name, 4)
    assert len(kafka.end_offsets(name)) == 4


def test_records_survive_stop_kill_and_pause() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("kept")
        broker.produce("kept", [b"1"])
        broker.restart()
        broker.produce("kept", [b"2"])
        broker.kill()
        broker.start()
        broker.pause()
        release = threading.Timer(1.0, broker.unpause)
        release.start()
        began = time.monotonic()
        broker.produce("kept", [b"3"])
        assert time.monotonic() - began > 0.8
        release.join()
        assert [message.value() for message in broker.read("kept", 3)] == [b"1", b"2", b"3"]
    assert not broker.folder.exists()


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "SSL", "MTLS"])
def test_secure_listeners_take_good_clients(secure_kafka: KafkaBroker, listener: str) -> None:
    name = f"secure-{listener.lower()}"
    secure_kafka.create_topic(name)
    producer = Producer(secure_kafka.client_config(listener))
    failures: list[KafkaError] = []
    producer.produce(name, b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(20) == 0
    assert not failures
    assert secure_kafka.end_offsets(name) == {0: 1}


@pytest.mark.parametrize(
    ("listener", "wrong"),
    [
        ("SASL_SSL", {"sasl.password": "wrong"}),
        ("SASL_PLAINTEXT", {"sasl.mechanism": "PLAIN", "sasl.password": "wrong"}),
        ("MTLS", {"ssl.certificate.location": "", "ssl.key.location": ""}),
    ],
)
def test_secure_listeners_refuse_others(secure_kafka: KafkaBroker, listener: str, wrong: dict[str, str]) -> None:
    seen: list[int] = []
    config = secure_kafka.client_config(
        listener, error_cb=lambda error: seen.append(error.code()), log_level=0, **wrong
    )
    client = AdminClient({key: value for key, value in config.items() if value != ""})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)
    client.poll(0.5)
    assert {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT} & set(seen)


def test_a_user_added_at_run_time(secure_kafka: KafkaBroker) -> None:
    secure_kafka.add_scram_user("late", "pass-late")
    config = secure_kafka.client_config("SASL_SSL", **{"sasl.username": "late", "sasl.password": "pass-late"})
    assert AdminClient(config).list_topics(timeout=20).brokers


def test_a_cluster_survives_the_death_of_a_leader() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("copied", replication=3)
        cluster.produce("copied", [b"1"])
        cluster.leader("copied").kill()
        cluster.produce("copied", [b"2"])
        assert [message.value() for message in cluster.read("copied", 2)] == [b"1", b"2"]
