"""Producing with confirmation: a record counts as sent only when the broker has acknowledged it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.core.errors import PenstockError, Terminal
from penstock.core.event import Headers
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import BrokerUnavailable, ErrorLog, translate

Placed = tuple[int, int]
"""Partition and offset at which a record arrived."""

_BATCH = 5_000


class NewRecord(NamedTuple):
    """A record to produce."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    partition: int = -1
    """-1: by the hash of the key, as Java clients do."""
    timestamp: int = 0
    """Epoch milliseconds; 0: now."""


class RecordRefused(PenstockError, Terminal):
    """The broker will never take this record, for instance because it is too large."""

    code = "record_refused"


_REFUSED = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.RECORD_LIST_TOO_LARGE}


class RecordProducer:
    """An idempotent producer: no record twice, none out of order within a partition, acknowledged by all replicas."""

    def __init__(
        self, config: KafkaClientConfig, overrides: Mapping[str, Any] | None = None, timeout: float = 30
    ) -> None:
        self._timeout = timeout
        self._errors = ErrorLog()
        settings = {
            "linger.ms": 5,
            "partitioner": "murmur2_random",
            # The client gives a record up by itself, so that none arrives after it was reported as failed.
            "message.timeout.ms": int(timeout * 1000),
            "error_cb": self._errors,
        }
        try:
            self._producer: Any = Producer(config.producer(settings | dict(overrides or {})))
        except KafkaException as error:
            raise translate(error, "creating a producer") from error

    def send(self, records: Sequence[NewRecord]) -> list[Placed | PenstockError]:
        """Produce and wait; returns per record its partition and offset, or the error (`Transient`: try it again)."""
        results = self._send(records)
        if len(records) > 1:
            # I9: a broker refuses a whole batch for one record that is too large; the others are sent again alone.
            for index, result in enumerate(results):
                if isinstance(result, RecordRefused):
                    [results[index]] = self._send([records[index]])
        return results

    def _send(self, records: Sequence[NewRecord]) -> list[Placed | PenstockError]:
        results: list[Placed | PenstockError] = [_UNCONFIRMED] * len(records)
        for index, record in enumerate(records):
            self._enqueue(record, index, results)
        self._producer.flush(self._timeout + 5)
        return results

    def _enqueue(self, record: NewRecord, index: int, results: list[Placed | PenstockError]) -> None:
        def arrived(error: KafkaError | None, message: Message) -> None:
            results[index] = self._failure(error, record) if error else (message.partition(), message.offset())  # type: ignore[assignment]  # set once delivered

        given = record._asdict() | {"headers": record.headers or []}
        while True:
            try:
                self._producer.produce(on_delivery=arrived, **given)
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                results[index] = self._failure(error.args[0], record)
                return
            else:
                self._producer.poll(0)
                return

    def _failure(self, error: KafkaError, record: NewRecord) -> PenstockError:
        if error.code() in _REFUSED:
            return RecordRefused(
                f"producing to {record.topic}: {error.str()}", received=f"{len(record.value or b'')} bytes"
            )
        return translate(error, f"producing to {record.topic}", log=self._errors)

    def close(self) -> None:
        self._producer.flush(self._timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_UNCONFIRMED = BrokerUnavailable("the broker has not confirmed the record in time")


def produce(config: KafkaClientConfig, records: Iterable[NewRecord], timeout: float = 30) -> list[Placed]:
    """Produce records and return where each arrived; raises the first failure."""
    placed: list[Placed] = []
    with RecordProducer(config, timeout=timeout) as producer:
        for batch in _batches(records):
            for result in producer.send(batch):
                if isinstance(result, PenstockError):
                    raise result
                placed.append(result)
    return placed


def _batches(records: Iterable[NewRecord]) -> Iterable[list[NewRecord]]:
    batch: list[NewRecord] = []
    for record in records:
        batch.append(record)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
