"""The executor's consumer: reads given partitions from given offsets, in batches, without a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.core.event import RecordLike
from penstock.kafka.client import KafkaClientConfig

Partition = tuple[str, int]

_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    # The default of 1000 makes a busy consumer look idle: drains fell to a tenth.
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
}

_OUT_OF_RANGE = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_EOF = KafkaError._PARTITION_EOF
_WAKE_AT_MOST = 4


@dataclass(slots=True)
class Batch:
    """Records in the order they were read, and per partition the offsets from which and up to which they were read."""

    records: list[RecordLike]
    starts: dict[Partition, int]
    ends: dict[Partition, int]


@dataclass(slots=True)
class Trouble:
    """What the consumer met besides records."""

    out_of_range: set[Partition] = field(default_factory=set)
    gone: set[Partition] = field(default_factory=set)
    error: str | None = None


class PartitionReader:
    """A consumer that stays assigned between windows, so that fetching goes on while the driver commits."""

    exhausted = False
    """A log goes on; readers of a part of one are exhausted some time."""

    def __init__(self, client: KafkaClientConfig, *, name: str, fetch_bytes: int = 1) -> None:
        """`fetch_bytes`: the broker answers when so many are there, or after a tenth of a second."""
        # librdkafka wants a group.id even though this consumer never joins a group.
        own = {"group.id": f"{name}-reader", "error_cb": self._on_error, "fetch.min.bytes": fetch_bytes}
        self._consumer = Consumer(client.consumer(_SETTINGS | own))
        self._next: dict[Partition, int] = {}
        self._held: set[Partition] = set()
        self._one_topic = True
        self.eof: dict[Partition, int] = {}
        self.trouble = Trouble()

    def place(self, wanted: Mapping[Partition, int]) -> None:
        """Read on from these offsets: nothing moves where the consumer already stands there."""
        self.trouble = Trouble()
        leave = [tp for tp, offset in self._next.items() if wanted.get(tp) != offset]
        enter = [tp for tp, offset in wanted.items() if self._next.get(tp) != offset]
        if held := self._held.intersection(leave):
            # A partition that is assigned again would still be paused.
            self._consumer.resume([TopicPartition(*tp) for tp in held])
        if leave:
            self._consumer.incremental_unassign([TopicPartition(*tp) for tp in leave])
        if enter:
            self._consumer.incremental_assign([TopicPartition(*tp, wanted[tp]) for tp in enter])
            self._wake(enter[:_WAKE_AT_MOST])
        for tp in leave:
            del self._next[tp]
            self._held.discard(tp)
            self.eof.pop(tp, None)
        for tp in enter:
            self._next[tp] = wanted[tp]
            self.eof.pop(tp, None)
        self._one_topic = len({topic for topic, _ in self._next}) <= 1

    def hold(self, partitions: set[Partition]) -> None:
        """Read nothing from these, until told otherwise; what was fetched of them is fetched again later."""
        if partitions == self._held:
            return
        wanted = partitions & set(self._next)
        if paused := wanted - self._held:
            self._consumer.pause([TopicPartition(*tp) for tp in paused])
        if resumed := (self._held - wanted) & set(self._next):
            self._consumer.resume([TopicPartition(*tp) for tp in resumed])
            self._wake(list(resumed)[:_WAKE_AT_MOST])
        self._held = wanted

    def _wake(self, partitions: Iterable[Partition]) -> None:
        # After an assign the first fetch can wait hundreds of ms for librdkafka's sleeping broker thread; a question to
        # the leader wakes it.
        for tp in partitions:
            try:
                self._consumer.get_watermark_offsets(TopicPartition(*tp), timeout=1.0, cached=False)
            except KafkaException:
                return

    def read(self, limit: int, timeout: float) -> Batch | None:
        """What is there at once, up to `limit`; else the first record within `timeout`."""
        # A consumed message always has its coordinates; the client's types say they may be None.
        messages: list[Any] = self._consumer.consume(limit, 0) or self._consumer.consume(1, timeout)
        if not messages:
            return None
        if any(map(Message.error, messages)):
            messages = [m for m in messages if m.error() is None or self._note(m)]
            if not messages:
                return None
        ends = self._ends(messages)
        starts = {tp: self._next[tp] for tp in ends}
        self._next.update(ends)
        return Batch(messages, starts, ends)

    def _ends(self, messages: list[Any]) -> dict[Partition, int]:
        if self._one_topic and len(set(map(Message.partition, messages))) == 1:
            last = messages[-1]
            return {(last.topic(), last.partition()): last.offset() + 1}
        return {(m.topic(), m.partition()): m.offset() + 1 for m in messages}

    def _note(self, message: Any) -> bool:
        """Remember an error message; always False, for it is no record."""
        error, tp = message.error(), (message.topic(), message.partition())
        if error.code() == _EOF:
            if tp in self._next:
                self.eof[tp] = message.offset()
                # Transaction markers and compacted ranges must not hold the position back.
                self._next[tp] = max(self._next[tp], message.offset())
        elif error.code() in _OUT_OF_RANGE:
            self.trouble.out_of_range.add(tp)
        elif error.code() in _GONE:
            self.trouble.gone.add(tp)
        else:
            self.trouble.error = error.str()
        return False

    def _on_error(self, error: KafkaError) -> None:
        self.trouble.error = error.str()

    def at_end(self, partition: Partition) -> bool:
        """True when everything that was there has been read."""
        end = self.eof.get(partition)
        return end is not None and self._next.get(partition, -1) <= end

    def position(self, partition: Partition) -> int:
        """The next offset this consumer will deliver."""
        return self._next[partition]

    def close(self) -> None:
        self._consumer.close()
