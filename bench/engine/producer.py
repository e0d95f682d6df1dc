"""Produces the benchmarks' events, as a process of its own: `python -m bench.engine.producer {preload,pace} …`."""

from __future__ import annotations

import argparse
import time

import orjson
from confluent_kafka import KafkaError, Message, Producer

SIZE = 300
_POOL = 2_000
_CONNECTIONS = 8


def payload(number: int, produced_ns: int) -> bytes:
    """An order of 300 bytes of JSON with its number and the time."""
    body = {
        "n": number,
        "t": produced_ns,
        "order": {"id": f"A-{number:012d}", "status": "paid", "total": 129.9, "currency": "EUR"},
        "customer": {"name": "Ada Example", "email": "ada@example.org", "segment": "retail"},
        "lines": [{"sku": "P-1001", "count": 2}, {"sku": "P-2002", "count": 1}],
        "note": "",
    }
    body["note"] = "x" * (SIZE - len(orjson.dumps(body)))
    return orjson.dumps(body)


class _Delivered:
    """Counts acknowledgements; an event that was not delivered must not count as produced."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error:
            self.failed += 1


def preload(bootstrap: str, topic: str, *, partitions: int, count: int, keys: int = 0) -> int:
    """Fill a topic as fast as it goes, evenly over its partitions; returns the number of failures."""
    settings = {"linger.ms": 20, "batch.size": 1_000_000, "batch.num.messages": 10_000, "acks": "1"}
    queue = {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **queue})
    delivered = _Delivered()
    pool = [payload(number, 1) for number in range(_POOL)]
    sent = 0
    while sent < count:
        batch: list[dict[str, bytes]] = [{"value": value} for value in pool[: count - sent]]
        for number, record in enumerate(batch if keys else ()):
            record["key"] = str(number % keys).encode()
        while len(producer) > 400_000:
            producer.poll(0.01)
        queued = producer.produce_batch(topic, batch, partition=(sent // _POOL) % partitions, on_delivery=delivered)
        if queued != len(batch):
            raise RuntimeError(f"only {queued} of {len(batch)} records were queued")
        sent += queued
        producer.poll(0)
    return delivered.failed + producer.flush(120)


def pace(bootstrap: str, topics: list[str], *, rate: float, seconds: float, first: int) -> int:
    """Produce `rate` events per second in all, evenly in time and over the topics; returns the number of failures."""
    # A broker serves the requests of a connection one after the other, and the client sends one per partition: a
    # hundred topics through one connection would measure that queue.
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "1", "queue.buffering.max.messages": 500_000}
    producers = [Producer(settings) for _ in range(min(_CONNECTIONS, len(topics)))]
    for index, topic in enumerate(topics):
        producers[index % len(producers)].list_topics(topic, timeout=20)
    delivered = _Delivered()
    # Building the body costs more than sending it: it is made once, with marks where number and time go.
    template = payload(first, time.time_ns())
    head, _, rest = template.partition(b'"n":')
    tail = rest[rest.index(b',"order"') :]
    total = int(rate * seconds)
    began = time.perf_counter()
    sent = 0
    while sent < total:
        due = min(total, int((time.perf_counter() - began) * rate) + 1)
        while sent < due:
            value = b'%b"n":%d,"t":%d%b' % (head, first + sent, time.time_ns(), tail)
            index = sent % len(topics)
            producers[index % len(producers)].produce(topics[index], value, on_delivery=delivered)
            sent += 1
        # At most 2 ms late, which is less than the linger; below 500/s each event gets its own moment.
        producers[0].poll(min(0.002, 1 / rate))
        for producer in producers[1:]:
            producer.poll(0)
    return delivered.failed + sum(producer.flush(60) for producer in producers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["preload", "pace"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topics", required=True, help="comma-separated")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--keys", type=int, default=0, help="so many different keys; 0: none")
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first event")
    given = parser.parse_args()
    topics = given.topics.split(",")
    if given.mode == "preload":
        failed = preload(given.bootstrap, topics[0], partitions=given.partitions, count=given.count, keys=given.keys)
    else:
        failed = pace(given.bootstrap, topics, rate=given.rate, seconds=given.seconds, first=given.first)
    if failed:
        raise SystemExit(f"{failed} events were not delivered")


if __name__ == "__main__":
    main()
