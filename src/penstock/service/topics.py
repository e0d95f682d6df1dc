"""Topics of a cluster: listing, making, producing to and following them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.config.spec import ConnectionSpec, PipelineSpec
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError
from penstock.core.event import TIMESTAMP_TYPES, Headers, RecordLike
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.partition_reader import PartitionReader
from penstock.kafka.producer import NewRecord, produce


@dataclass(frozen=True, slots=True)
class TopicView:
    topic: str
    partitions: int
    records: int | None
    """Sum over partitions of end minus first offset; None where it was not asked for."""


def connection_of(bootstrap: str | None, specs: list[PipelineSpec]) -> ConnectionSpec:
    """The cluster that a command means: an address, or that of a pipeline file."""
    if bootstrap is not None:
        return ConnectionSpec(bootstrap=bootstrap)
    connections = {
        spec.source.config.connection.bootstrap: spec.source.config.connection
        for spec in specs
        if not spec.source.is_foreign
    }
    if len(connections) > 1:
        raise ConfigError(
            "the files name more than one cluster", received=sorted(connections), hint="choose one with --bootstrap"
        )
    if not connections:
        raise ConfigError("which cluster?", hint="give --bootstrap HOST:PORT or --config PIPELINE_FILE")
    return next(iter(connections.values()))


class Topics:
    """What a person may do with the topics of one cluster."""

    def __init__(self, connection: ConnectionSpec, timeout: float = 10.0) -> None:
        self._timeout = timeout
        self._client = KafkaClientConfig.of(connection)
        self._cluster = ClusterView(self._client, timeout)

    def list(self, *, internal: bool = False, counts: bool = True) -> list[TopicView]:
        """By name; `internal` includes those of Kafka itself."""
        found = {name: n for name, n in self._cluster.topics().items() if internal or not name.startswith("__")}
        places = [(name, p) for name, n in found.items() for p in range(n)]
        sizes: dict[str, int] = {}
        for (name, _), (first, end) in (self._cluster.watermarks(places) if counts else {}).items():
            sizes[name] = sizes.get(name, 0) + end - first
        return [TopicView(name, n, sizes.get(name) if counts else None) for name, n in sorted(found.items())]

    def create(self, topic: str, partitions: int, replication: int, config: dict[str, str]) -> None:
        self._cluster.create_topic(topic, partitions, replication, config)

    def produce(
        self, topic: str, values: Iterable[bytes | None], key: bytes | None, headers: Headers
    ) -> Sequence[tuple[int, int]]:
        """Where each record arrived: partition and offset."""
        return produce(self._client, (NewRecord(topic, value, key, headers) for value in values), timeout=self._timeout)

    def tail(self, topic: str, *, from_start: bool, last: int, deadline: Deadline | None) -> Iterator[RecordLike]:
        """Records as they come: all, or the last `last` of each partition, and then new ones until the deadline."""
        count = self._cluster.existing([topic])[topic]
        marks = self._cluster.watermarks([(topic, p) for p in range(count)])
        begin = {place: first if from_start else max(first, end - last) for place, (first, end) in marks.items()}
        reader = PartitionReader(self._client, name="penstock-tail")
        try:
            reader.place(begin)
            while deadline is None or not deadline.expired:
                batch = reader.read(500, 0.5 if deadline is None else min(0.5, deadline.remaining))
                if batch is not None:
                    yield from batch.records
                elif reader.trouble.error:
                    # A client reports every lost connection; only a cluster that no longer answers is an outage.
                    self._cluster.cluster_id()
                    reader.trouble.error = None
        finally:
            reader.close()


def record_as_dict(record: RecordLike) -> dict[str, Any]:
    """A record as `topics tail --json` prints it."""
    kind, millis = record.timestamp()
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": millis if kind else None,
        "timestamp_type": TIMESTAMP_TYPES[kind],
        "key": readable(record.key()),
        "headers": [{"name": name, "value": readable(value)} for name, value in record.headers() or []],
        "value": readable(record.value()),
    }


def readable(raw: bytes | None) -> str | dict[str, str] | None:
    """Text where the bytes are UTF-8, else `{"base64": …}`."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}
