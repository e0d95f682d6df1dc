"""The group suite on the fake group and on Apache Kafka, and what only one of them can show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from penstock.config.spec import ConnectionSpec
from penstock.core.clock import Clock
from penstock.core.threads import Threads
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.group_consumer import GroupConsumer, RebalanceListener
from tests.behaviour.kafka.group import GroupSuite, Scene
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
