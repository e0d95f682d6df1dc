"""The worker's consumer: reads given partitions from given offsets, in batches, without a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.core.event import RecordLike
from penstock.kafka.client import KafkaClientConfig

Partition = tuple[str, int]
Runs = Sequence[tuple[Partition, int]]
"""Records as runs of one partition: the partition, and how many. Consumers give long ones: what is done per run costs
nothing per event."""

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
    """Records in the order they were read, and per partition the range of offsets that they cover.

    The range goes on behind the last record where the end of the partition is known to be further: offsets of
    transaction markers and compacted records belong to it. There may be no records at all."""

    records: list[RecordLike]
    starts: dict[Partition, int]
    ends: dict[Partition, int]
    runs: Runs = ()
    """Of the records, where the reader knows them."""

    def keep(self, wanted: Callable[[RecordLike], bool]) -> None:
        """Leave out the other records; the ranges stay."""
        self.records, self.runs = [record for record in self.records if wanted(record)], ()


@dataclass(slots=True)
class Trouble:
    """Errors of a consumer besides records."""

    out_of_range: set[Partition] = field(default_factory=set)
    gone: set[Partition] = field(default_factory=set)
    error: str | None = None


class PartitionReader:
    """A consumer that stays assigned between windows, so that fetching goes on while the driver commits.

    Not thread-safe: one thread at a time uses it."""

    exhausted = False
    """Always False for a log; readers of a range are exhausted at its end."""

    def __init__(self, client: KafkaClientConfig, *, name: str, fetch_bytes: int = 1) -> None:
        """`fetch_bytes`: the broker answers a fetch when this many bytes are available, or after 0.1 s."""
        # librdkafka wants a group.id even though this consumer never joins a group.
        own = {"group.id": f"{name}-reader", "error_cb": self._on_error, "fetch.min.bytes": fetch_bytes}
        self._consumer = Consumer(client.consumer(_SETTINGS | own))
        self._next: dict[Partition, int] = {}
        self._held: set[Partition] = set()
        self._topic: str | None = None
        """The only one that is read, where there is one."""
        self.eof: dict[Partition, int] = {}
        self.trouble = Trouble()

    def place(self, wanted: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, from these offsets; one that is at its offset keeps what was fetched."""
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
        topics = {topic for topic, _ in self._next}
        self._topic = topics.pop() if len(topics) == 1 else None

    def hold(self, partitions: set[Partition]) -> None:
        """Pause exactly these partitions, until the next call; what was fetched of them is fetched again later."""
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
        # After an assign the first fetch can wait hundreds of ms for librdkafka's sleeping broker thread; a request to
        # the leader wakes it.
        for tp in partitions:
            try:
                self._consumer.get_watermark_offsets(TopicPartition(*tp), timeout=1.0, cached=False)
            except KafkaException:
                return

    def read(self, limit: int, timeout: float) -> Batch | None:
        """What is there at once, up to `limit` records; else the first record within `timeout` seconds.

        A batch without records is returned where only the end of a partition moved: its position is then behind the
        markers of a transaction. None: no position moved.
        """
        # A consumed message always has its coordinates; the client's types say they may be None.
        messages: list[Any] = self._consumer.consume(limit, 0) or self._consumer.consume(1, timeout)
        if not messages:
            return None
        eofs: dict[Partition, int] = {}
        if any(map(Message.error, messages)):
            messages, eofs = self._without_errors(messages)
        runs = self._runs(messages)
        ends, at = {}, 0
        for tp, count in runs:
            at += count
            ends[tp] = messages[at - 1].offset() + 1
        for tp, eof in eofs.items():
            # Transaction markers and compacted ranges must not hold the position back.
            end = max(eof, ends.get(tp, 0))
            if end > self._next[tp]:
                ends[tp] = end
        if not ends:
            return None
        starts = {tp: self._next[tp] for tp in ends}
        self._next.update(ends)
        return Batch(messages, starts, ends, runs)

    def _runs(self, messages: list[Any]) -> Runs:
        numbers: Iterable[Any] = map(Message.partition, messages)
        if self._topic is not None:
            return [((self._topic, number), len(list(group))) for number, group in groupby(numbers)]
        topics: Iterable[Any] = map(Message.topic, messages)
        return [(tp, len(list(group))) for tp, group in groupby(zip(topics, numbers, strict=True))]

    def _without_errors(self, messages: list[Any]) -> tuple[list[Any], dict[Partition, int]]:
        """The records, and the end of each partition that was reached; other errors go into `trouble`."""
        records: list[Any] = []
        eofs: dict[Partition, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
                continue
            code, tp = error.code(), (message.topic(), message.partition())
            if code == _EOF:
                if tp in self._next:
                    eofs[tp] = self.eof[tp] = message.offset()
            elif code in _OUT_OF_RANGE:
                self.trouble.out_of_range.add(tp)
            elif code in _GONE:
                self.trouble.gone.add(tp)
            else:
                self.trouble.error = error.str()
        return records, eofs

    def _on_error(self, error: KafkaError) -> None:
        self.trouble.error = error.str()

    def at_end(self, partition: Partition) -> bool:
        """True when the position is at the end of the partition, as far as known."""
        end = self.eof.get(partition)
        return end is not None and self._next.get(partition, -1) <= end

    def position(self, partition: Partition) -> int:
        """The next offset this consumer will deliver."""
        return self._next[partition]

    def close(self) -> None:
        self._consumer.close()
