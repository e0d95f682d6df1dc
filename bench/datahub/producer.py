"""Produces DataHub's records, as a process of its own: `python -m bench.datahub.producer {logs,changes,pace} …`."""

from __future__ import annotations

import argparse
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.datahub.records import PE_SCHEMA, Framed, change_logs, entity_change, entity_changes

_POOL = 2_000


class _Delivered:
    """Counts what was not delivered: it must not count as produced."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error:
            self.failed += 1


def fill(bootstrap: str, topic: str, pool: list[bytes], *, partitions: int, count: int) -> int:
    """Fill a topic as fast as it goes, every partition with the whole pool in turn; returns the number of failures."""
    settings = {"linger.ms": 20, "batch.size": 1_000_000, "batch.num.messages": 10_000, "acks": "1"}
    queue = {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **queue})
    delivered = _Delivered()
    sent = 0
    while sent < count:
        batch = [{"value": value} for value in pool[: count - sent]]
        while len(producer) > 200_000:
            producer.poll(0.01)
        partition = (sent // len(pool)) % partitions
        if producer.produce_batch(topic, batch, partition=partition, on_delivery=delivered) != len(batch):
            raise RuntimeError("the producer's queue is full")
        sent += len(batch)
        producer.poll(0)
    return delivered.failed + producer.flush(120)


def pace(bootstrap: str, topic: str, framed: Framed, *, rate: float, seconds: float, first: int) -> int:
    """Entity changes evenly in time, each with the time at which it is handed to the client; returns the failures."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "1"})
    producer.list_topics(topic, timeout=20)
    delivered = _Delivered()
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        while (wait := began + number / rate - time.perf_counter()) > 0:
            producer.poll(min(wait, 0.002))
        producer.produce(topic, entity_change(framed, first + number, time.time_ns()), on_delivery=delivered)
    return delivered.failed + producer.flush(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["logs", "changes", "pace"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--schema-id", type=int, required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first event")
    given = parser.parse_args()
    if given.what == "pace":
        framed = Framed(PE_SCHEMA, given.schema_id)
        options = {"rate": given.rate, "seconds": given.seconds, "first": given.first}
        failed = pace(given.bootstrap, given.topic, framed, **options)
    else:
        made = change_logs if given.what == "logs" else entity_changes
        pool = made(given.schema_id, _POOL)
        failed = fill(given.bootstrap, given.topic, pool, partitions=given.partitions, count=given.count)
    if failed:
        raise SystemExit(f"{failed} records were not delivered")


if __name__ == "__main__":
    main()
