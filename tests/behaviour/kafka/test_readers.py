"""The worker's reader and the idle watcher's consumer on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from penstock.config.spec import ConnectionSpec
from penstock.kafka.arrival_consumer import ArrivalConsumer
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until


@pytest.fixture
def client(kafka: KafkaBroker) -> KafkaClientConfig:
    return KafkaClientConfig.of(ConnectionSpec(bootstrap=kafka.bootstrap))


@pytest.fixture
def reader(client: KafkaClientConfig) -> Iterator[PartitionReader]:
    made = PartitionReader(client, name="reading")
    yield made
    made.close()


@pytest.mark.parametrize("limit", [2000, 1999, 1])
def test_a_slow_reader_of_one_transaction_ends_behind_its_marker(
    kafka: KafkaBroker, client: KafkaClientConfig, reader: PartitionReader, topic: Callable[..., str], limit: int
) -> None:
    name, count = topic(), 5_000 if limit > 1 else 5
    producer = Producer(client.producer({"transactional.id": name}))
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(count):
        producer.produce(name, str(n).encode(), partition=0)
        producer.poll(0)
    producer.commit_transaction(30)
    place, end = (name, 0), count + 1
    until(lambda: kafka.end_offsets(name)[0] == end, 20, "the marker takes an offset")

    reader.place({place: 0})
    offsets, at, stop = [], 0, time.monotonic() + 60
    while not reader.at_end(place) and time.monotonic() < stop:
        batch = reader.read(limit, 1.0)
        # Longer than the broker waits with an answer to a fetch: records and the end are then in one answer.
        time.sleep(0.15)
        if batch is not None:
            offsets += [record.offset() for record in batch.records]
            assert batch.starts == {place: at}
            at = batch.ends[place]
            assert at == reader.position(place)
    assert offsets == list(range(count))
    assert (at, reader.position(place), reader.at_end(place)) == (end, end, True)


def test_a_record_that_was_reported_once_is_reported_to_a_later_watch_at_its_offset(
    kafka: KafkaBroker, client: KafkaClientConfig, topic: Callable[..., str]
) -> None:
    name = topic()
    place = (name, 0)
    watcher = ArrivalConsumer(client)
    try:
        watcher.watch({place: 0})
        kafka.produce(name, [b"x"])
        seen: list[object] = []
        until(lambda: seen.extend(watcher.wait(0.1)) or seen, 20, "the first watch to see the record")
        assert seen == [(place, 0)]
        watcher.watch({place: 0})
        again: list[object] = []
        until(lambda: again.extend(watcher.wait(0.1)) or again, 20, "the second watch to see the record")
        assert again == [(place, 0)]
        watcher.watch({place: 1})
        assert watcher.wait(0.3) == []
    finally:
        watcher.close()


def test_a_watch_below_the_log_reports_an_error_each_time(
    kafka: KafkaBroker, client: KafkaClientConfig, topic: Callable[..., str]
) -> None:
    name = topic()
    place = (name, 0)
    kafka.produce(name, [b"x", b"y", b"z"])
    kafka.delete_records(name, {0: 2})
    watcher = ArrivalConsumer(client)
    try:
        for _ in range(2):
            watcher.watch({place: 0})
            seen: list[object] = []
            until(lambda seen=seen: seen.extend(watcher.wait(0.1)) or seen, 20, "an error for the partition")
            assert set(seen) == {(place, None)}
    finally:
        watcher.close()
