"""The embedded broker: librdkafka's mock cluster, in this process, for the demo and for tests."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, Producer

from penstock.core.deadline import Deadline
from penstock.kafka.errors import BrokerUnavailable, translate

_log = logging.getLogger("penstock.kafka.embedded")


class EmbeddedCluster:
    """A Kafka cluster without a server: groups, commits and transactions work, other processes may connect.

    Limits: 100,000 records or 5 MiB are kept per partition, a topic is created by its first use and has four
    partitions, there are no topic ids and there is no security.
    """

    def __init__(self, brokers: int = 3) -> None:
        # The producer is the cluster's owner: the brokers live as long as it does.
        settings = {
            "bootstrap.servers": "embedded",
            "test.mock.num.brokers": brokers,
            "topic.metadata.refresh.interval.ms": -1,
            "log_level": 3,
            "logger": _log,
        }
        self._owner: Producer | None = Producer(settings)
        metadata = self._owner.list_topics(timeout=10)
        self.bootstrap = ",".join(f"{b.host}:{b.port}" for b in metadata.brokers.values())
        """Comma list of the brokers' addresses."""

    def create_topic(self, name: str, timeout: float = 10.0) -> int:
        """Create the topic by a metadata request; returns its number of partitions, always four."""
        if self._owner is None:
            raise BrokerUnavailable("the embedded cluster is closed")
        deadline = Deadline.after(timeout)
        while True:
            try:
                topic = self._owner.list_topics(name, timeout=max(deadline.remaining, 0.1)).topics[name]
            except KafkaException as error:
                raise translate(error, f"creating topic {name}") from error
            if topic.error is None and topic.partitions:
                return len(topic.partitions)
            if deadline.expired:
                raise BrokerUnavailable(f"topic {name} did not appear on the embedded cluster")

    def close(self) -> None:
        """End the brokers and delete their records."""
        self._owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
