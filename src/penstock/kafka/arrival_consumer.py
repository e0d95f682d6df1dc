"""The idle watcher's consumer: watches the ends of many partitions with tiny fetches and reports arrivals."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import Partition

_SETTINGS = {
    "group.id": "penstock-idle-watcher",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # An arrival shows after 33 ms instead of 500, for 4-5 % of a core over twenty such consumers: hence one for all.
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
    "fetch.message.max.bytes": 1024,
}
_QUIET = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._PARTITION_EOF}
_FETCHES_NO_MORE = OFFSET_INVALID
"""Position of a partition after an error: no offset equals it, so the next `watch` assigns the partition again."""


class ArrivalConsumer:
    """Not thread-safe: one thread owns it."""

    def __init__(self, client: KafkaClientConfig) -> None:
        self._consumer = Consumer(client.consumer(_SETTINGS))
        self._position: dict[Partition, int] = {}

    def watch(self, wanted: Mapping[Partition, int]) -> None:
        """Watch exactly these partitions, each from this offset on, also where a record there was reported before."""
        leave = [tp for tp, offset in self._position.items() if wanted.get(tp) != offset]
        enter = [tp for tp, offset in wanted.items() if self._position.get(tp) != offset]
        if leave:
            self._consumer.incremental_unassign([TopicPartition(*tp) for tp in leave])
        if enter:
            self._consumer.incremental_assign([TopicPartition(*tp, wanted[tp]) for tp in enter])
            with contextlib.suppress(KafkaException):
                # Wakes the broker thread: the first fetch after an assign could wait for hundreds of ms.
                self._consumer.get_watermark_offsets(TopicPartition(*enter[0]), timeout=0.5, cached=False)
        self._position = dict(wanted)

    def wait(self, timeout: float) -> list[tuple[Partition, int | None]]:
        """Partitions where a record arrived, with its offset, or an error, with None; at most `timeout` seconds."""
        arrivals: list[tuple[Partition, int | None]] = []
        for message in self._consumer.consume(1, timeout) + self._consumer.consume(500, 0):
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if topic is None or partition is None:
                continue
            tp = (topic, partition)
            error = message.error()
            if error is None and offset is not None:
                arrivals.append((tp, offset))
                self._move(tp, offset + 1)
            elif error is not None and error.code() not in _QUIET:
                arrivals.append((tp, None))
                self._move(tp, _FETCHES_NO_MORE)
        return arrivals

    def _move(self, partition: Partition, offset: int) -> None:
        if partition in self._position:
            self._position[partition] = offset

    def close(self) -> None:
        self._consumer.close()
