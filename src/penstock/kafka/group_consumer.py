"""The consumer group member of a pipeline: it holds partitions and commits offsets, and reads no records."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError, Unavailable
from penstock.core.threads import THREADS, Mailbox, Threads
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.errors import ABSENT
from penstock.kafka.partition_reader import Partition

_SETTINGS: dict[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "latest",
    "max.poll.interval.ms": 300_000,
    # All partitions are paused. A fetch that begins before the pause must cost next to nothing.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 64,
    "fetch.message.max.bytes": 1024,
    # New topics of a pattern and new partitions show within this time.
    "topic.metadata.refresh.interval.ms": 10_000,
}
_PIPELINE_MAY_SET = ("client.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms")

COMMIT_PATIENCE = 3.0
"""Seconds to wait for the answer to a commit. The client itself waits without limit for a silent coordinator."""
_IDLE_WORKER = 60.0
"""Seconds for which an idle worker thread waits for a call before it waits again."""

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


class CommitRefused(Unavailable):
    """Offsets of the group could not be committed or read now. L6: an outage to the caller, to be tried again after a
    back-off; no event is to blame."""

    code = "commit"

    def __init__(self, message: str, *, lost: bool, unknown: bool = False) -> None:
        super().__init__(message)
        self.lost = lost
        """True: the membership is lost, and with it the partitions; the next `poll` reports them as lost."""
        self.unknown = unknown
        """True: no answer came in time. The commit may have succeeded, or may still succeed."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset to commit, with its metadata (`core.commit_metadata`)."""

    offset: int
    metadata: str = ""


class RebalanceListener:
    """Rebalances of a group consumer. `GroupConsumer` calls these from inside `poll` and `close`, in their thread."""

    def assigned(self, partitions: list[Partition]) -> None:
        """These partitions are new. The list is empty where a rebalance changed nothing."""

    def revoked(self, partitions: list[Partition]) -> None:
        """These partitions go to another member when this returns; commits are still accepted."""

    def lost(self, partitions: list[Partition]) -> None:
        """These partitions may belong to another member already."""


class _Call:
    """A call of the client in the worker thread."""

    def __init__(self, call: Callable[[], Any], threads: Threads) -> None:
        self._call = call
        self._answered = threads.event()
        self._result: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:  # noqa: BLE001 - raised by `result`, in the thread that asked
            self._error = error
        self._answered.set()

    def is_answered(self, timeout: float) -> bool:
        return self._answered.is_set() or self._answered.wait(timeout)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class _Worker:
    """Runs calls that may hang, one after the other, in one thread that starts with the first of them."""

    def __init__(self, name: str, threads: Threads) -> None:
        self._name, self._threads = name, threads
        self._calls: Mailbox[_Call] = threads.mailbox()
        self._started = False
        self._last: _Call | None = None

    def submit(self, call: Callable[[], Any]) -> _Call:
        made = _Call(call, self._threads)
        self._put(made)
        return made

    def _put(self, call: _Call) -> None:
        self._calls.put(call)
        if not self._started:
            self._started = True
            self._threads.start(self._name, self._run, owner="GroupConsumer", ends="when the consumer is closed")

    def end_with(self, call: Callable[[], Any]) -> _Call:
        """Submit the last call; the thread ends after it."""
        self._last = last = _Call(call, self._threads)
        self._put(last)
        return last

    def _run(self) -> None:
        while True:
            call = self._calls.get(_IDLE_WORKER)
            if call is not None:
                call.run()
                if call is self._last:
                    return


class GroupConsumer:
    """A member of a consumer group. All its partitions are paused.

    Not thread-safe: one thread owns it. The client has one lock per consumer: a commit in another thread does not
    return while `poll` runs, rebalance callbacks included. Commits therefore run in a worker thread, during which this
    class calls nothing else of the client, or (inside a callback) without waiting for their own answer.
    """

    def __init__(
        self,
        client: KafkaClientConfig,
        group: str,
        listener: RebalanceListener,
        *,
        session_timeout: float,
        client_id: str,
        isolation: str = "read_committed",
        commit_patience: float = COMMIT_PATIENCE,
        threads: Threads = THREADS,
        clock: Clock = SYSTEM,
    ) -> None:
        self.last_error: str | None = None
        """The last error that the client reported; the owner may reset it."""
        self.fatal: ConfigError | None = None
        """An error that no waiting mends."""
        self._listener = listener
        self._patience = commit_patience
        self._clock = clock
        self._worker = _Worker(f"group-{group}", threads)
        self._open: _Call | None = None
        """A commit in the worker thread that has no answer yet."""
        self._unconfirmed: dict[Partition, Commit] = {}
        """Commits of a rebalance callback whose result is unknown."""
        self._unanswered = 0
        """Commits of rebalance callbacks that the client has not reported on."""
        self._in_callback = False
        self._closed = False
        self._assigned: set[Partition] = set()
        self._consumer = Consumer(self._settings(client, group, session_timeout, client_id, isolation))

    def _settings(
        self, client: KafkaClientConfig, group: str, session_timeout: float, client_id: str, isolation: str
    ) -> dict[str, Any]:
        given = {name: value for name, value in client.properties if name in _PIPELINE_MAY_SET}
        # The client refuses a session that outlives the poll interval.
        session = int(min(session_timeout * 1000, float(given.get("max.poll.interval.ms", "inf"))))
        own = {
            "session.timeout.ms": session,
            "heartbeat.interval.ms": max(500, session // 3),
            "client.id": client_id,
        }
        fixed = {
            "group.id": group,
            "error_cb": self._on_error,
            "on_commit": self._on_commit,
            "isolation.level": isolation,
        }
        return client.consumer(_SETTINGS | own | given | fixed)

    def join(self, topics: Sequence[str]) -> None:
        """Subscribe; a name that begins with ^ is a pattern. `poll` makes the member join."""
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, timeout: float) -> bool:
        """Serve rebalances for up to `timeout` seconds. Heartbeats do not depend on it, rebalances do.

        While a commit has no answer, rebalances wait for it: returns False after `timeout` seconds without serving any.
        An expired session is one of the things that are served, so only True says that the partitions are still owned.
        """
        deadline = Deadline.after(timeout, self._clock)
        if self._closed or not self._is_answered(timeout):
            return False
        message = self._consumer.poll(deadline.remaining)
        if message is not None and (error := message.error()) is not None:
            self._on_error(error)
        return True

    # -- commits ---------------------------------------------------------------------------

    def commit(self, commits: Mapping[Partition, Commit]) -> None:
        """Commit offsets and wait for the answer, at most `commit_patience` seconds. Raises `CommitRefused`:

        - `lost`: the group has expired this member; another member may own its partitions.
        - `unknown`: no answer came in time. The commit may have succeeded, or may still succeed. The caller treats its
          offsets as uncommitted and commits them, or higher ones, again. I2: no commit is sent before an earlier one
          was answered; until then each call waits for that answer and raises `CommitRefused(unknown=True)` without
          sending anything. So an old commit never overtakes a newer one.
        - neither: the broker refused it for now (coordinator not available or loading, rebalance in progress).

        The broker checks that the member is in the current generation, not that it owns the partitions.
        """
        deadline = Deadline.after(self._patience, self._clock)
        if self._closed:
            raise CommitRefused("the consumer is closed", lost=True)
        if not self._is_answered(deadline.remaining) or not self._is_confirmed(deadline.remaining):
            raise self._late("an earlier commit")
        offsets = [TopicPartition(*tp, c.offset, c.metadata) for tp, c in commits.items()]
        try:
            if self._in_callback:
                self._commit_in_callback(offsets, commits, deadline)
                return
            call = self._open = self._worker.submit(lambda: self._consumer.commit(offsets=offsets, asynchronous=False))
            if not self._is_answered(deadline.remaining):
                raise self._late("a commit")
            done = call.result()
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        for tp in done or ():
            if tp.error is not None:
                raise self._refused(tp.error)

    def _commit_in_callback(
        self, offsets: list[TopicPartition], commits: Mapping[Partition, Commit], deadline: Deadline
    ) -> None:
        """Inside `poll` a synchronous commit has no time limit, so its effect is read back, which has one. The broker
        answers the two requests in order."""
        self._consumer.commit(offsets=offsets, asynchronous=True)
        self._unanswered += 1
        self._unconfirmed = dict(commits)
        if not self._is_confirmed(deadline.remaining):
            raise self._late("a commit during a rebalance")

    def _is_confirmed(self, timeout: float) -> bool:
        """Whether no commit of a callback has an unknown result: the client reported on it, or the group has it."""
        if self._unconfirmed:
            asked = [TopicPartition(*tp) for tp in self._unconfirmed]
            try:
                stored = self._consumer.committed(asked, timeout=timeout)
            except KafkaException:
                return False
            found = {(tp.topic, tp.partition): Commit(tp.offset, tp.metadata or "") for tp in stored if not tp.error}
            if found == self._unconfirmed:
                self._unconfirmed = {}
        return not self._unconfirmed

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """The client's report on a commit of a callback; served by a later `poll`."""
        self._unanswered = max(0, self._unanswered - 1)
        if not self._unanswered:
            self._unconfirmed = {}
        for failed in [error, *(tp.error for tp in partitions)]:
            if failed is not None:
                self._on_error(failed)

    def _is_answered(self, timeout: float) -> bool:
        """Whether no commit is open. A late answer is dropped: the caller commits the same offsets again."""
        if self._open is not None and self._open.is_answered(timeout):
            self._open = None
        return self._open is None

    def _late(self, what: str) -> CommitRefused:
        text = f"the broker has not answered {what} within {self._patience:g} s"
        return CommitRefused(text, lost=False, unknown=True)

    def _refused(self, error: KafkaError) -> CommitRefused:
        self._note_fatal(error)
        return CommitRefused(f"the broker refused a commit: {error.str()}", lost=error.code() in _LOST)

    def committed(
        self, partitions: Iterable[Partition], timeout: float = 10.0
    ) -> dict[Partition, tuple[int | None, str]]:
        """Committed offset (None: never) and metadata per partition; raises `CommitRefused` after `timeout` seconds.

        A commit without an answer is waited for first, so that what is returned does not change afterwards.
        """
        asked = [TopicPartition(*tp) for tp in partitions]
        deadline = Deadline.after(timeout, self._clock)
        if not asked:
            return {}
        if not self._is_answered(min(timeout, self._patience)):
            raise self._late("an earlier commit")
        try:
            found = self._consumer.committed(asked, timeout=deadline.remaining)
            for tp in found:
                # Such a partition has no offset, and must not pass for one that was never committed.
                if tp.error is not None and tp.error.code() not in ABSENT:
                    raise KafkaException(tp.error)
        except KafkaException as error:
            self._note_fatal(error.args[0])
            text = f"committed offsets cannot be read: {error.args[0].str()}"
            raise CommitRefused(text, lost=error.args[0].code() in _LOST) from error
        return {(tp.topic, tp.partition): (tp.offset if tp.offset >= 0 else None, tp.metadata or "") for tp in found}

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the group. `revoked` is called on the way, unless a commit has had no answer for `commit_patience`.

        Returns within twice that time, besides what `revoked` takes; the client's own end may go on in the worker
        thread, until the broker answers. The listener is called no more after this.
        """
        if self._closed:
            return
        answered = self._is_answered(self._patience)
        if answered:
            self._revoke_all()
        self._closed = True
        closing = self._worker.end_with(self._close_client)
        if answered:
            closing.is_answered(self._patience)

    def _revoke_all(self) -> None:
        # Before the client's own close, in whose callbacks offsets cannot be read and so commits not be confirmed.
        deadline = Deadline.after(self._patience, self._clock)
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.unsubscribe()
            while self._assigned and not deadline.expired:
                self._consumer.poll(0.05)

    def _close_client(self) -> None:
        with contextlib.suppress(KafkaException, RuntimeError):
            self._consumer.close()

    # -- callbacks of the client -----------------------------------------------------------

    @contextlib.contextmanager
    def _callback(self) -> Iterator[RebalanceListener]:
        """The listener to call; after `close` one that does nothing, for the owner may have a new consumer by then."""
        if self._closed:
            yield RebalanceListener()
            return
        self._in_callback = True
        try:
            yield self._listener
        finally:
            self._in_callback = False

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.last_error = None
        # The position of a paused member means nothing; a logical one spares the look-up of committed offsets.
        consumer.incremental_assign([TopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in partitions])
        consumer.pause([TopicPartition(tp.topic, tp.partition) for tp in partitions])
        self._assigned.update(_keys(partitions))
        with self._callback() as listener:
            listener.assigned(_keys(partitions))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._callback() as listener:
            listener.revoked(_keys(partitions))
        self._unassign(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._callback() as listener:
            listener.lost(_keys(partitions))
        self._unassign(consumer, partitions)

    def _unassign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned.difference_update(_keys(partitions))
        with contextlib.suppress(KafkaException):
            consumer.incremental_unassign(partitions)

    def _on_error(self, error: KafkaError) -> None:
        self._note_fatal(error)
        self.last_error = error.str()

    def _note_fatal(self, error: KafkaError) -> None:
        hint = _FATAL.get(error.code())
        if hint:
            self.fatal = ConfigError(error.str(), hint=hint)


def _keys(partitions: Iterable[TopicPartition]) -> list[Partition]:
    return [(tp.topic, tp.partition) for tp in partitions]
