"""Follows a topic for a while: the last records of each partition, and then new ones, up to a limit."""

from __future__ import annotations

from penstock.config.spec import ConnectionSpec
from penstock.core.deadline import Deadline
from penstock.core.event import Record
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.reader import Reader

_WAIT = 0.5
"""Seconds that a look for the next record takes at most, so that whoever is gone is noticed."""


class TopicTail:
    """One thread at a time; `close` ends it."""

    def __init__(
        self, connection: ConnectionSpec, topic: str, *, last: int, seconds: float, limit: int, timeout: float = 10.0
    ) -> None:
        client = KafkaClientConfig.of(connection)
        self._cluster = ClusterView(client, timeout)
        count = self._cluster.existing([topic])[topic]
        marks = self._cluster.watermarks([(topic, partition) for partition in range(count)])
        self._deadline, self._left = Deadline.after(seconds), limit
        self._reader = Reader(client, name="penstock-tail")
        self._reader.place({place: max(first, end - last) for place, (first, end) in marks.items()})

    def some(self) -> list[Record]:
        """The next records; none where none came for a moment."""
        records = self._read()[: self._left]
        self._left -= len(records)
        return records

    @property
    def over(self) -> bool:
        return not self._left or self._deadline.expired

    def close(self) -> None:
        self._reader.close()

    def _read(self) -> list[Record]:
        batch = self._reader.read(100, min(_WAIT, self._deadline.remaining))
        if batch is not None:
            return [Record.of(record) for record in batch.records]
        if self._reader.trouble.error:
            # A client reports every lost connection; only a cluster that no longer answers is an outage.
            self._cluster.cluster_id()
            self._reader.trouble.error = None
        return []
