"""Instances as processes: they share partitions, hand them over, stop in good order and may be killed; every event is
accounted for."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.support.engine import coordinates, pipeline
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 90.0
ENV = {"PENSTOCK_ENGINE_SESSION_TIMEOUT": "6s", "PENSTOCK_ENGINE_HOT_LANES": "1"}


class Feed:
    """Produces numbered events to four partitions until told to stop."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self._kafka, self._topic = kafka, topic
        self._done = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._done.wait(0.02):
            batch = [Sent(json.dumps({"id": self.sent + i}).encode(), partition=i % 4) for i in range(8)]
            self._kafka.produce(self._topic, batch)
            self.sent += len(batch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(30)


@pytest.fixture
def shared(
    kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> Iterator[tuple[str, Path, Callable[[str], PenstockProcess]]]:
    """A topic, the file the actions write to, and a way to start instances of one pipeline."""
    name, out, file = topic(partitions=4), tmp_path / "out.jsonl", tmp_path / "shared.json"
    document = pipeline(name, kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    file.write_text(json.dumps(document))
    started: list[PenstockProcess] = []

    def start(label: str) -> PenstockProcess:
        process = PenstockProcess(
            ["run", file], folder=tmp_path / label, env=ENV | {"PENSTOCK_HOME": str(tmp_path / "home")}
        )
        started.append(process.start())
        process.wait_ready(WAIT_S)
        return process

    yield name, out, start
    for process in started:
        process.close()


def finished(kafka: KafkaBroker, topic: str, feed: Feed) -> None:
    until(lambda: kafka.lag(topic, topic) == 0, WAIT_S, lambda: f"lag {kafka.lag(topic, topic)} of {feed.sent}")


def one_window_at_most(kafka: KafkaBroker, topic: str, done: Counter[tuple[str, int, int]]) -> None:
    """L1: the window that was not returned is repeated once, in one piece. How large it is depends on the backlog,
    which a slow machine has more of."""
    assert max(done.values()) <= 2
    for partition in kafka.end_offsets(topic):
        repeated = sorted(o for (_, p, o), n in done.items() if p == partition and n == 2)
        assert not repeated or repeated == list(range(repeated[0], repeated[-1] + 1))


def test_two_instances_share_the_work_and_a_stopped_one_hands_over_without_loss_or_repetition(
    kafka: KafkaBroker, shared: tuple[str, Path, Callable[[str], PenstockProcess]]
) -> None:
    topic, out, start = shared
    with Feed(kafka, topic) as feed:
        first = start("first")
        until(lambda: len(coordinates(out)) > 100, WAIT_S, "the first instance to work")
        second = start("second")
        until(lambda: sorted(map(len, kafka.members(topic).values())) == [2, 2], WAIT_S, lambda: kafka.members(topic))
        seen = len(coordinates(out))
        until(lambda: len(coordinates(out)) > seen + 200, WAIT_S, "both to work")
        assert first.stop() == 0
        until(lambda: sorted(map(len, kafka.members(topic).values())) == [4], WAIT_S, lambda: kafka.members(topic))
        seen = len(coordinates(out))
        until(lambda: len(coordinates(out)) > seen + 200, WAIT_S, "the second one to take over")
    finished(kafka, topic, feed)
    assert second.stop() == 0

    done = coordinates(out)
    assert len(done) == len(set(done)) == feed.sent
    for partition in range(4):
        offsets = [o for _, p, o in done if p == partition]
        assert offsets == sorted(offsets)


def test_a_killed_instance_loses_nothing_and_repeats_at_most_a_window(
    kafka: KafkaBroker, shared: tuple[str, Path, Callable[[str], PenstockProcess]]
) -> None:
    topic, out, start = shared
    with Feed(kafka, topic) as feed:
        first = start("first")
        until(lambda: len(coordinates(out)) > 200, WAIT_S, "the first instance to work")
        second = start("second")
        until(lambda: sorted(map(len, kafka.members(topic).values())) == [2, 2], WAIT_S, lambda: kafka.members(topic))
        committed = kafka.offsets(topic)
        first.kill()
        until(lambda: sorted(map(len, kafka.members(topic).values())) == [4], WAIT_S, lambda: kafka.members(topic))
        until(
            lambda: all(offset > committed[at] for at, offset in kafka.offsets(topic).items()),
            WAIT_S,
            "the second one to take over",
        )
    finished(kafka, topic, feed)
    assert second.stop() == 0

    done = Counter(coordinates(out))
    assert len(done) == feed.sent
    one_window_at_most(kafka, topic, done)


def test_a_killed_worker_process_loses_nothing_and_the_instance_goes_on(
    kafka: KafkaBroker, shared: tuple[str, Path, Callable[[str], PenstockProcess]]
) -> None:
    topic, out, start = shared
    with Feed(kafka, topic) as feed:
        instance = start("only")
        until(lambda: len(coordinates(out)) > 200, WAIT_S, "the instance to work")
        for worker in instance.workers():
            worker.kill()
        seen = len(coordinates(out))
        until(lambda: len(coordinates(out)) > seen + 400, WAIT_S, "the instance to go on with new workers")
    finished(kafka, topic, feed)
    assert instance.stop() == 0
    done = Counter(coordinates(out))
    one_window_at_most(kafka, topic, done)
    assert set(done) == {(topic, p, o) for p, end in kafka.end_offsets(topic).items() for o in range(end)}


def test_an_instance_whose_jvm_dies_says_so_and_ends_and_the_next_one_loses_nothing(
    kafka: KafkaBroker, shared: tuple[str, Path, Callable[[str], PenstockProcess]]
) -> None:
    topic, out, start = shared
    with Feed(kafka, topic) as feed:
        instance = start("first")
        until(lambda: len(coordinates(out)) > 100, WAIT_S, "the instance to work")
        (jvm,) = [process for process in instance.tree() if process.name() == "java"]
        jvm.kill()
        assert instance.wait(WAIT_S) == 1
        assert "Spark's JVM has ended" in instance.log
        second = start("second")
    finished(kafka, topic, feed)
    assert second.stop() == 0
    assert set(coordinates(out)) == {(topic, p, o) for p, end in kafka.end_offsets(topic).items() for o in range(end)}
