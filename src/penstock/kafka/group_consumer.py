"""The group member: one consumer per pipeline that holds partitions and commits offsets, and never reads a record."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.core.errors import ConfigError, PenstockError, Transient
from penstock.kafka.client import KafkaClientConfig

Partition = tuple[str, int]

_SETTINGS: dict[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "latest",
    "max.poll.interval.ms": 300_000,
    # All partitions are paused; should one be fetched before the pause, it shall cost nothing.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
    "fetch.message.max.bytes": 1024,
    # New topics of a pattern and new partitions show within this time.
    "topic.metadata.refresh.interval.ms": 10_000,
}

_COMMIT_PATIENCE = 3.0
"""Seconds after which a commit counts as refused for now: while the coordinator is away, the client waits for ever."""

_LOST = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._ASSIGNMENT_LOST,
}
_FATAL = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant the user read access to the topics",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant the user read access to the group",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "another kind of consumer is in this group: stop the old consumer first",
    KafkaError.OFFSET_METADATA_TOO_LARGE: "raise the broker's offset.metadata.max.bytes",
}


class CommitRefused(PenstockError, Transient):
    """The broker did not take a commit; it may later, or the partition is somebody else's now."""

    code = "commit"

    def __init__(self, message: str, *, lost: bool) -> None:
        super().__init__(message)
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset to commit, with the finished ranges above it."""

    offset: int
    metadata: str = ""


class _Call(threading.Thread):
    """One call of the client that may hang, in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(name="commit", daemon=True)
        self._call = call
        self._result: Any = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:  # noqa: BLE001 - raised by `result`, in the thread that asked
            self._error = error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class RebalanceListener:
    """What a member tells its owner, from inside `poll`."""

    def assigned(self, partitions: list[Partition]) -> None: ...
    def revoked(self, partitions: list[Partition]) -> None: ...
    def lost(self, partitions: list[Partition]) -> None: ...


class GroupConsumer:
    """Not thread-safe: one thread owns it (`commit` never returns while another thread polls)."""

    def __init__(
        self,
        client: KafkaClientConfig,
        group: str,
        listener: RebalanceListener,
        *,
        session_timeout: float,
        client_id: str,
        isolation: str = "read_committed",
    ) -> None:
        self._listener = listener
        self._commit: _Call | None = None
        """A commit that the broker has not answered yet."""
        self._rebalancing = False
        self.last_error: str | None = None
        self.fatal: ConfigError | None = None
        given = {
            k: v
            for k, v in client.properties
            if k in ("client.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")
        }
        # The client refuses a session that outlives the poll interval.
        session = int(min(session_timeout * 1000, float(given.get("max.poll.interval.ms", "inf"))))
        settings = {
            "session.timeout.ms": session,
            "heartbeat.interval.ms": max(500, session // 3),
            "client.id": client_id,
        }
        self._consumer = Consumer(
            client.consumer(
                _SETTINGS
                | settings
                | given
                | {"group.id": group, "error_cb": self._on_error, "isolation.level": isolation}
            )
        )

    def join(self, topics: Sequence[str]) -> None:
        """Subscribe; a name that begins with ^ is a pattern."""
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, timeout: float) -> None:
        """Serve rebalances; records that slip through before the pause are not for us."""
        if not self._answered(timeout):
            # A commit beside a poll never returns; heartbeats go on without us.
            return
        message = self._consumer.poll(timeout)
        if message is not None and (error := message.error()) is not None:
            self._on_error(error)

    def commit(self, commits: Mapping[Partition, Commit]) -> None:
        """Commit synchronously; raises `CommitRefused`."""
        offsets = [TopicPartition(*tp, c.offset, c.metadata) for tp, c in commits.items()]
        try:
            done = self._call(lambda: self._consumer.commit(offsets=offsets, asynchronous=False))
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        for tp in done or ():
            if tp.error is not None:
                raise self._refused(tp.error)

    def _call(self, commit: Callable[[], Any]) -> Any:
        if self._rebalancing:
            # The client is inside `poll`, and a commit beside that never returns. The coordinator has just called us.
            return commit()
        late = CommitRefused(f"the broker has not answered a commit for {_COMMIT_PATIENCE:g} s", lost=False)
        if not self._answered(_COMMIT_PATIENCE):
            raise late
        call = self._commit = _Call(commit)
        if not self._answered(_COMMIT_PATIENCE):
            raise late
        return call.result()

    def _answered(self, timeout: float | None) -> bool:
        """Whether no commit is open any more; an answer that came too late is nobody's, for the commit is repeated."""
        if self._commit is not None:
            self._commit.join(timeout)
            if not self._commit.is_alive():
                self._commit = None
        return self._commit is None

    def _refused(self, error: KafkaError) -> CommitRefused:
        self._note_fatal(error)
        return CommitRefused(f"the broker refused a commit: {error.str()}", lost=error.code() in _LOST)

    def committed(
        self, partitions: Iterable[Partition], timeout: float = 10.0
    ) -> dict[Partition, tuple[int | None, str]]:
        """Committed offset (None: never) and metadata per partition."""
        asked = [TopicPartition(*tp) for tp in partitions]
        try:
            found = self._consumer.committed(asked, timeout=timeout) if asked else []
        except KafkaException as error:
            self._note_fatal(error.args[0])
            raise CommitRefused(f"committed offsets cannot be read: {error.args[0].str()}", lost=False) from error
        return {(tp.topic, tp.partition): (tp.offset if tp.offset >= 0 else None, tp.metadata or "") for tp in found}

    def close(self) -> None:
        """Leave the group; revocations are served on the way out."""
        if self._answered(_COMMIT_PATIENCE):
            self._close()
        else:
            # The broker is away; once it is back, its group must not keep a member that is gone.
            threading.Thread(target=self._close, name="leave", daemon=True).start()

    def _close(self) -> None:
        self._answered(None)
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.last_error = None
        # The position of a paused member means nothing; a logical one spares the look-up of committed offsets.
        consumer.incremental_assign([TopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in partitions])
        consumer.pause([TopicPartition(tp.topic, tp.partition) for tp in partitions])
        self._listener.assigned(_places(partitions))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._rebalancing = True
        try:
            self._listener.revoked(_places(partitions))
        finally:
            self._rebalancing = False
        with contextlib.suppress(KafkaException):
            consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._listener.lost(_places(partitions))
        with contextlib.suppress(KafkaException):
            consumer.incremental_unassign(partitions)

    def _on_error(self, error: KafkaError) -> None:
        self._note_fatal(error)
        self.last_error = error.str()

    def _note_fatal(self, error: KafkaError) -> None:
        hint = _FATAL.get(error.code())
        if hint:
            self.fatal = ConfigError(error.str(), hint=hint)


def _places(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [(tp.topic, tp.partition) for tp in partitions]


MemberFactory = Callable[..., GroupConsumer]
