"""What a group has committed, read from the topic in which the broker keeps it: every commit, and when it came."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from tests.support.kafka_client import KafkaClient

_TOPIC = "__consumer_offsets"
_TIMEOUT_S = 10.0


class LoggedCommit(NamedTuple):
    """One commit of one partition; `offset` None: the group's offset was deleted."""

    topic: str
    partition: int
    offset: int | None
    metadata: str
    at_ms: int
    """The broker's wall clock when it took the commit."""


class CommitLog:
    """Reads the commits of one group, from the first one. Used by one thread at a time."""

    def __init__(self, kafka: KafkaClient, group: str) -> None:
        self._group = group
        settings = {"bootstrap.servers": kafka.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0}
        self._consumer = Consumer(
            settings | {"group.id": f"tests-commits-{group}", "enable.auto.commit": False, "fetch.wait.max.ms": 50}
        )
        self._at: TopicPartition | None = None

    def _found(self) -> TopicPartition | None:
        """The partition that holds the group; None while the broker has made no such topic yet."""
        if self._at is None:
            partitions = len(self._consumer.list_topics(_TOPIC, timeout=_TIMEOUT_S).topics[_TOPIC].partitions)
            if partitions:
                self._at = TopicPartition(_TOPIC, _java_hash(self._group) % partitions, OFFSET_BEGINNING)
                self._consumer.assign([self._at])
        return self._at

    def read(self, timeout_s: float) -> list[LoggedCommit]:
        """Commits since the last call; waits so long for the first of them."""
        if self._found() is None:
            return []
        messages = self._consumer.consume(1_000, timeout_s)
        return [
            commit
            for message in messages
            if not message.error() and (commit := self._commit(message.key(), message.value())) is not None
        ]

    def rest(self) -> Iterator[LoggedCommit]:
        """Everything up to the end of the log as it is now. Raises KafkaException where the broker does not answer."""
        at = self._found()
        if at is None:
            return
        _, end = self._consumer.get_watermark_offsets(at, timeout=_TIMEOUT_S)
        while max(self._consumer.position([at])[0].offset, 0) < end:
            yield from self.read(0.2)

    def _commit(self, key: bytes | None, value: bytes | None) -> LoggedCommit | None:
        """None: the record is about something else, as group members are, or about another group."""
        if key is None or (parsed := _parse_key(key)) is None or parsed[0] != self._group:
            return None
        return LoggedCommit(*parsed[1:], *(_parse_value(value) if value is not None else (None, "", 0)))

    def close(self) -> None:
        self._consumer.close()


class _Bytes:
    """Kafka's own encoding of structures."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def text(self, *, compact: bool = False) -> str:
        length = self._varint() - 1 if compact else self.number("h")
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value


def _parse_key(data: bytes) -> tuple[str, str, int] | None:
    read = _Bytes(data)
    if read.number("h") > 1:
        return None  # members of a group, not offsets
    return read.text(), read.text(), read.number("i")


def _parse_value(data: bytes) -> tuple[int, str, int]:
    read = _Bytes(data)
    version = read.number("h")
    if version > 4:
        raise KafkaException(f"commits of version {version} are not known to the tests")
    offset = read.number("q")
    if version >= 3:
        read.number("i")  # the leader's epoch
    return offset, read.text(compact=version >= 4), read.number("q")


def _java_hash(text: str) -> int:
    """As brokers choose the partition of a group."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value & 0x80000000 else value)
