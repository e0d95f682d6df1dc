"""The group suite on the fake group and on Apache Kafka, and what only one of them can show."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.core.clock import Clock
from penstock.core.threads import Threads
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import Commit, CommitRefused, GroupConsumer, RebalanceListener
from tests.behaviour.kafka.group import GroupSuite, Log, Scene
from tests.support.fake_group import FakeGroup, FakeGroupConsumer
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

_numbers = count(1)


class FakeScene(Scene):
    topic = "t"

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.group = FakeGroup("g", {"t": 4}, clock=Clock(monotonic=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def make(self, listener: RebalanceListener) -> FakeGroupConsumer:
        return self.group.consumer(None, "g", listener, session_timeout=10.0, client_id="fake")

    def poll_until(self, condition: Callable[[], object], *names: str) -> None:
        for _ in range(50):
            if condition():
                return
            for name in names:
                self.members[name].poll(0.0)
        raise AssertionError(f"not within 50 polls: {self.calls}")

    def expire(self, name: str) -> None:
        member = self.members[name]
        assert isinstance(member, FakeGroupConsumer)
        self.group.expire(member)


class RealScene(Scene):
    def __init__(self, kafka: KafkaBroker) -> None:
        super().__init__()
        self.kafka = kafka
        self.name = f"group-suite-{os.getpid()}-{next(_numbers)}"
        self.topic = kafka.create_topic(self.name, 4)

    def make(self, listener: RebalanceListener) -> GroupConsumer:
        # A member that is not polled for so long leaves the group by itself, and its owner does not notice.
        limits = {"max.poll.interval.ms": 4_000, "heartbeat.interval.ms": 500}
        client = KafkaClientConfig.of(ConnectionSpec(bootstrap=self.kafka.bootstrap, consumer_config=limits))
        return GroupConsumer(client, self.name, listener, session_timeout=4.0, client_id="real", threads=Threads())

    def poll_until(self, condition: Callable[[], object], *names: str) -> None:
        def reached() -> object:
            for name in names:
                self.members[name].poll(0.02)
            return condition()

        until(reached, 40, lambda: f"the group to settle: {self.calls}", every_s=0.0)

    def expire(self, name: str) -> None:
        others = [other for other in self.members if other != name]
        self.poll_until(lambda: len(self.kafka.members(self.name)) == len(others), *others)


class TestFakeGroup(GroupSuite):
    @pytest.fixture
    def scene(self) -> FakeScene:
        return FakeScene()


class TestApacheKafka(GroupSuite):
    @pytest.fixture
    def scene(self, kafka: KafkaBroker) -> RealScene:
        return RealScene(kafka)


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as made:
        yield made


def _consumer(
    broker: KafkaBroker, listener: RebalanceListener, threads: Threads, patience: float = 1.0
) -> GroupConsumer:
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=broker.bootstrap))
    made = GroupConsumer(
        client, "g", listener, session_timeout=20.0, client_id="c", commit_patience=patience, threads=threads
    )
    made.join(["t"])
    return made


def _settled(consumer: GroupConsumer, log: Log, owned: int, *others: GroupConsumer) -> None:
    def reached() -> bool:
        for each in (consumer, *others):
            each.poll(0.02)
        return len(log.owned) == owned

    until(reached, 40, lambda: f"{owned} partitions: {log.calls}", every_s=0.0)


def _commits(consumer: GroupConsumer, offset: int) -> bool:
    """Commit as the driver does: again after an outage."""
    consumer.poll(0.0)
    try:
        consumer.commit({("t", 0): Commit(offset)})
    except CommitRefused as error:
        if error.lost:
            raise
        return False
    return True


@pytest.mark.kafka
def test_a_commit_without_an_answer_is_waited_for_by_the_next_and_by_rebalances(broker: KafkaBroker) -> None:
    broker.create_topic("t", 4)
    threads, log = Threads(), Log("a", [])
    consumer = _consumer(broker, log, threads)
    _settled(consumer, log, 4)
    consumer.commit({("t", 0): Commit(1)})
    broker.pause()
    try:
        for offset in (5, 6, 7):
            began = time.monotonic()
            with pytest.raises(CommitRefused) as caught:
                consumer.commit({("t", 0): Commit(offset)})
            assert (caught.value.lost, caught.value.unknown) == (False, True)
            assert time.monotonic() - began < 2.0
        with pytest.raises(CommitRefused, match="earlier commit"):
            consumer.committed([("t", 0)])
        consumer.poll(0.1)
        assert len(threads.alive()) == 1, "one thread for all calls that hang"
    finally:
        broker.unpause()
    until(lambda: consumer.committed([("t", 0)]) == {("t", 0): (5, "")}, 20, "the first commit to arrive alone")
    until(lambda: _commits(consumer, 8), 20, "a commit behind it")
    assert consumer.committed([("t", 0)]) == {("t", 0): (8, "")}
    consumer.close()
    until(lambda: threads.alive() == [], 20, "the worker thread to end")


@pytest.mark.kafka
def test_a_commit_inside_a_rebalance_callback_has_a_time_limit(broker: KafkaBroker) -> None:
    broker.create_topic("t", 4)
    threads, calls = Threads(), list[tuple[str, str, list[int]]]()
    logs = Log("a", calls), Log("b", calls)
    first = _consumer(broker, logs[0], threads)
    _settled(first, logs[0], 4)
    seen: list[tuple[CommitRefused, float]] = []

    def while_the_broker_stands_still(partitions: list[tuple[str, int]]) -> None:
        broker.pause()
        try:
            for _ in range(2):
                began = time.monotonic()
                with pytest.raises(CommitRefused) as caught:
                    first.commit(dict.fromkeys(partitions, Commit(5)))
                seen.append((caught.value, time.monotonic() - began))
        finally:
            broker.unpause()

    logs[0].on_revoke = while_the_broker_stands_still
    second = _consumer(broker, logs[1], threads)
    _settled(first, logs[0], 2, second)
    _settled(second, logs[1], 2, first)
    assert [(error.unknown, error.lost, took < 2.0) for error, took in seen] == [(True, False, True)] * 2
    logs[0].on_revoke = lambda _partitions: None
    until(lambda: _commits(first, 9), 20, "a commit behind it")
    for consumer in (first, second):
        consumer.close()


@pytest.mark.kafka
def test_a_consumer_closed_during_an_outage_calls_its_listener_no_more(broker: KafkaBroker) -> None:
    broker.create_topic("t", 4)
    threads, calls = Threads(), list[tuple[str, str, list[int]]]()
    log = Log("a", calls)
    consumer = _consumer(broker, log, threads, patience=0.5)
    _settled(consumer, log, 4)
    consumer.commit({("t", 0): Commit(1)})
    broker.pause()
    try:
        with pytest.raises(CommitRefused):
            consumer.commit({("t", 0): Commit(5)})
        began = time.monotonic()
        consumer.close()
        assert time.monotonic() - began < 2.0
        calls.clear()
    finally:
        broker.unpause()
    until(lambda: threads.alive() == [], 60, "the former consumer's end")
    assert calls == []
    until(lambda: broker.members("g") == {}, 20, "the group to be empty")
