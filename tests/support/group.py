"""Another member of a pipeline's group, as another instance would be: it takes partitions, and leaves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.support.kafka_client import KafkaClient
from tests.support.waiting import until

JOIN_S = 60.0


class OtherMember:
    """Joins with the assignor that instances use, holds what it gets and acts on nothing."""

    def __init__(self, kafka: KafkaClient, group: str, topic: str, *, session_s: float = 6.0) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": group,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "session.timeout.ms": int(session_s * 1000),
                "heartbeat.interval.ms": 500,
                "log_level": 0,
            }
        )
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._owned: set[tuple[str, int]] = set()
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._run, name="other-member", daemon=True)
        self._asked: list[Callable[[], Any]] = []
        self._thread.start()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._owned |= {(tp.topic, tp.partition) for tp in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        self._owned -= {(tp.topic, tp.partition) for tp in partitions}

    def _run(self) -> None:
        # One thread owns the consumer: a commit beside a poll never returns.
        while not self._stop.is_set():
            self._consumer.poll(0.05)
            with self._lock:
                asked, self._asked = self._asked, []
            for call in asked:
                call()
        self._consumer.close()

    @property
    def owned(self) -> list[tuple[str, int]]:
        return sorted(self._owned)

    def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        """Commit as if everything below had been worked on."""
        done = threading.Event()
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]

        def call() -> None:
            self._consumer.commit(offsets=wanted, asynchronous=False)
            done.set()

        with self._lock:
            self._asked.append(call)
        assert done.wait(JOIN_S), "the other member could not commit"

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(JOIN_S)


@contextlib.contextmanager
def other_member(kafka: KafkaClient, group: str, topic: str, *, owns: int) -> Iterator[OtherMember]:
    """A member that has got this many partitions; it leaves with the block."""
    member = OtherMember(kafka, group, topic)
    try:
        until(
            lambda: len(member.owned) == owns, JOIN_S, lambda: f"{owns} partitions for another member: {member.owned}"
        )
        yield member
    finally:
        member.leave()
