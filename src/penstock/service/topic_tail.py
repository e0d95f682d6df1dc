"""Follows a topic for a while: the last records of each partition, and then new ones, up to a limit."""

from __future__ import annotations

import time
from typing import Final

from penstock.config.spec import ConnectionSpec
from penstock.core.deadline import Deadline
from penstock.core.event import Record
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader

_WAIT: Final = 0.5
"""Seconds that a look for the next record takes at most, so that whoever is gone is noticed."""
_GATHER: Final = 0.1
"""Seconds between looks that find something: records come one by one, and a look for each would cost the pipelines
of the instance more than the records themselves."""
_FETCH: Final = 100_000
"""Bytes for which the broker waits, for a tenth of a second at most: else it answers for every few records."""
_AT_ONCE: Final = 1_000
"""Records of one look."""


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
        self._looked = 0.0
        self._reader = PartitionReader(client, name="penstock-tail", fetch_bytes=_FETCH)
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
        if (early := self._looked + _GATHER - time.monotonic()) > 0:
            time.sleep(min(early, self._deadline.remaining))
        batch = self._reader.read(_AT_ONCE, min(_WAIT, self._deadline.remaining))
        if batch is not None:
            self._looked = time.monotonic()
            return [Record.of(record) for record in batch.records]
        if self._reader.trouble.error:
            # A client reports every lost connection; only a cluster that no longer answers is an outage.
            self._cluster.cluster_id()
            self._reader.trouble.error = None
        return []
