"""The group consumer's own rules, with a client that answers as the test says."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.core.errors import Transient, Unavailable
from penstock.core.threads import Threads
from penstock.kafka import group_consumer
from penstock.kafka.group_consumer import Commit, CommitRefused, GroupConsumer, RebalanceListener
from tests.support.waiting import until

TP = ("t", 0)


class FakeClient:
    """librdkafka's consumer: calls hang while `answers` is clear."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.answers = threading.Event()
        self.answers.set()
        self.calls: list[str] = []
        self.stored: dict[tuple[str, int], tuple[int, str]] = {}
        self.error: KafkaError | None = None
        self.partition_error: KafkaError | None = None
        self.closed = False
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.next_poll: Callable[[], None] | None = None

    def subscribe(self, _topics: list[str], **callbacks: Callable[..., None]) -> None:
        self.callbacks = callbacks

    def unsubscribe(self) -> None:
        self.calls.append("unsubscribe")
        self.next_poll = lambda: self.callbacks["on_revoke"](self, [TopicPartition(*TP)])

    def poll(self, _timeout: float) -> None:
        self.calls.append("poll")
        run, self.next_poll = self.next_poll, None
        if run is not None:
            run()

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        self.calls.append(f"commit {offsets[0].offset}")
        if not asynchronous:
            assert self.answers.wait(30)
        if self.error is not None:
            raise KafkaException(self.error)
        if self.answers.is_set():
            self.stored.update({(at.topic, at.partition): (at.offset, at.metadata or "") for at in offsets})
        return None if asynchronous else offsets

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if not self.answers.is_set():
            time.sleep(timeout)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        found = []
        for at in asked:
            offset, metadata = self.stored.get((at.topic, at.partition), (-1001, ""))
            made = TopicPartition(at.topic, at.partition, offset, metadata)
            found.append(FailedPartition(made, self.partition_error) if self.partition_error else made)
        return found  # type: ignore[return-value]  # as far as it is asked

    def close(self) -> None:
        assert self.answers.wait(30)
        self.callbacks["on_revoke"](self, [TopicPartition(*TP)])
        self.callbacks["on_lost"](self, [TopicPartition(*TP)])
        self.closed = True

    def incremental_assign(self, _partitions: object) -> None: ...
    def incremental_unassign(self, _partitions: object) -> None: ...
    def pause(self, _partitions: object) -> None: ...


class FailedPartition:
    def __init__(self, of: TopicPartition, error: KafkaError) -> None:
        self.topic, self.partition, self.offset, self.metadata, self.error = of.topic, of.partition, -1001, "", error


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.on_revoke: Callable[[], None] = lambda: None

    def assigned(self, _partitions: list[tuple[str, int]]) -> None:
        self.calls.append("assigned")

    def revoked(self, _partitions: list[tuple[str, int]]) -> None:
        self.calls.append("revoked")
        self.on_revoke()

    def lost(self, _partitions: list[tuple[str, int]]) -> None:
        self.calls.append("lost")


class Config:
    properties = ()

    def consumer(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch, heard: Heard, threads: Threads) -> GroupConsumer:
    monkeypatch.setattr(group_consumer, "Consumer", FakeClient)
    made = GroupConsumer(
        Config(),  # type: ignore[arg-type]  # settings are all that is asked of it
        "g",
        heard,
        session_timeout=10,
        client_id="c",
        commit_patience=0.1,
        threads=threads,
    )
    made.join(["t"])
    client_of(made).callbacks["on_assign"](client_of(made), [TopicPartition(*TP)])
    return made


def client_of(consumer: GroupConsumer) -> FakeClient:
    client = consumer._consumer
    assert isinstance(client, FakeClient)
    return client


def test_i02_no_commit_is_sent_before_an_earlier_one_was_answered(consumer: GroupConsumer) -> None:
    client = client_of(consumer)
    client.answers.clear()
    for offset in (5, 6):
        with pytest.raises(CommitRefused) as caught:
            consumer.commit({TP: Commit(offset)})
        assert (caught.value.unknown, caught.value.lost) == (True, False)
    with pytest.raises(CommitRefused, match="earlier"):
        consumer.committed([TP])
    consumer.poll(0.0)
    assert client.calls == ["commit 5"], "nothing beside a commit that has no answer"
    client.answers.set()
    until(lambda: consumer.committed([TP]) == {TP: (5, "")}, 10, "the first commit to be answered")
    consumer.commit({TP: Commit(7)})
    assert client.calls == ["commit 5", "commit 7"]


def test_commits_share_one_thread_that_ends_with_the_consumer(consumer: GroupConsumer, threads: Threads) -> None:
    assert threads.alive() == []
    seen = set()
    for offset in range(50):
        consumer.commit({TP: Commit(offset)})
        seen.update(entry.name for entry in threads.alive())
        assert len(threads.alive()) == 1
    assert seen == {"group-g"}
    consumer.close()
    until(lambda: threads.alive() == [], 10, "the thread to end")
    assert client_of(consumer).closed


def test_a_consumer_closed_with_an_open_commit_calls_its_listener_no_more(
    consumer: GroupConsumer, heard: Heard, threads: Threads
) -> None:
    client = client_of(consumer)
    client.answers.clear()
    with pytest.raises(CommitRefused):
        consumer.commit({TP: Commit(5)})
    consumer.close()
    assert not client.closed
    client.answers.set()
    until(lambda: client.closed, 10, "the client to be closed in the background")
    assert heard.calls == ["assigned"]
    until(lambda: threads.alive() == [], 10, "the thread to end")
    consumer.poll(0.0)
    with pytest.raises(CommitRefused) as caught:
        consumer.commit({TP: Commit(6)})
    assert caught.value.lost
    assert "commit 6" not in client.calls


def test_a_consumer_that_closes_in_order_is_revoked_once_in_its_owners_thread(
    consumer: GroupConsumer, heard: Heard
) -> None:
    where: list[int] = []

    def drained() -> None:
        where.append(threading.get_ident())
        consumer.commit({TP: Commit(9)})

    heard.on_revoke = drained
    consumer.close()
    consumer.close()
    assert heard.calls == ["assigned", "revoked"]
    assert where == [threading.get_ident()]
    assert client_of(consumer).stored == {TP: (9, "")}


def test_a_commit_inside_a_callback_ends_within_the_patience(consumer: GroupConsumer, heard: Heard) -> None:
    client = client_of(consumer)
    refused: list[CommitRefused] = []

    def drained() -> None:
        client.answers.clear()
        for offset in (5, 6):
            began = time.monotonic()
            with pytest.raises(CommitRefused) as caught:
                consumer.commit({TP: Commit(offset)})
            refused.append(caught.value)
            assert time.monotonic() - began < 5

    heard.on_revoke = drained
    client.next_poll = lambda: client.callbacks["on_revoke"](client, [TopicPartition(*TP)])
    consumer.poll(0.0)
    assert [(error.unknown, error.lost) for error in refused] == [(True, False)] * 2
    assert client.calls == ["poll", "commit 5"], "the second waits for the first"
    client.answers.set()
    with pytest.raises(CommitRefused, match="earlier"):
        consumer.commit({TP: Commit(7)})
    client.settings["on_commit"](None, [TopicPartition(*TP, 5)])
    consumer.commit({TP: Commit(7)})
    assert client.stored == {TP: (7, "")}


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, False),
        (KafkaError.REBALANCE_IN_PROGRESS, False),
        (KafkaError.NOT_COORDINATOR, False),
        (KafkaError.ILLEGAL_GENERATION, True),
        (KafkaError.UNKNOWN_MEMBER_ID, True),
        (KafkaError._ASSIGNMENT_LOST, True),
    ],
)
def test_i06_a_refused_commit_is_an_outage_to_its_caller(consumer: GroupConsumer, code: int, *, lost: bool) -> None:
    client_of(consumer).error = KafkaError(code)
    with pytest.raises(Unavailable) as caught:
        consumer.commit({TP: Commit(5)})
    assert isinstance(caught.value, CommitRefused)
    assert isinstance(caught.value, Transient)
    assert (caught.value.lost, caught.value.unknown) == (lost, False)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - made in this line
    assert (again.lost, again.unknown, str(again)) == (lost, False, str(caught.value))


def test_i01_an_offset_that_cannot_be_read_is_not_taken_for_one_that_was_never_committed(
    consumer: GroupConsumer,
) -> None:
    client_of(consumer).partition_error = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    with pytest.raises(CommitRefused, match="cannot be read"):
        consumer.committed([TP])
    client_of(consumer).partition_error = None
    assert consumer.committed([TP]) == {TP: (None, "")}
