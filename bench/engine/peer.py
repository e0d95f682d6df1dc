"""The peer: a bare consumer loop with orjson, as a process of its own: `python -m bench.engine.peer`."""

from __future__ import annotations

import argparse
import time

import orjson
from confluent_kafka import Consumer

from bench.engine import sink


class _Event:
    """As much of an event as the sink looks at."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--count", type=int, required=True)
    given = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            "group.id": given.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 20_000,
        }
    )
    consumer.subscribe([given.topic])
    left = given.count
    committed = time.monotonic()
    while left > 0:
        messages = consumer.consume(2_000, 0.1)
        for message in messages:
            sink.counted(_Event(orjson.loads(message.value() or b"null")))
        left -= len(messages)
        if left < given.count and time.monotonic() - committed > 1.0:
            consumer.commit(asynchronous=False)
            committed = time.monotonic()
    consumer.commit(asynchronous=False)
    # The sink's thread writes its last sample within 25 ms.
    time.sleep(0.2)
    consumer.close()


if __name__ == "__main__":
    main()
