"""Consumer groups: membership, cooperative rebalances, sessions and commits.

Rules modelled: a partition moves only after its owner has served the revocation inside `poll`; a member that was
silent for longer than its session is expired, and its partitions are given away without its knowledge; commits of
expired members are refused, commits of live members are taken even for partitions that they do not own; a commit may
be refused while the group rebalances, may never be answered (taken or not), or may be taken late; deleting a topic
drops its offsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.kafka import group_consumer
from penstock.kafka.group_consumer import Commit
from tests.simulation.scheduler import Process, Task

if TYPE_CHECKING:
    from tests.simulation.world import World

Place = tuple[str, int]
Answer = Literal["taken", "refused", "lost answer", "lost request", "late"]


@dataclass(eq=False, slots=True)
class Member:
    id: int
    consumer: SimConsumer
    topics: tuple[str, ...]
    last_seen: float
    expired: bool = False
    owned: set[Place] = field(default_factory=set)
    target: set[Place] = field(default_factory=set)

    @property
    def process(self) -> Process:
        return self.consumer.process


class Group:
    """One consumer group at its coordinator."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self.members: dict[int, Member] = {}
        self.offsets: dict[Place, Commit] = {}
        self.settles_at = 0.0
        """When the rebalance that is under way has its result."""
        self.expiries = 0

    def join(self, member: Member) -> None:
        self.members[member.id] = member
        self._rebalance(0.1)

    def leave(self, member: Member) -> None:
        if self.members.pop(member.id, None) is not None:
            member.owned = set()
            self._rebalance(0.3)

    def expire(self, member: Member) -> None:
        """The session is over: its partitions are free, and it does not know."""
        self.expiries += 1
        self._world.situations.reach("session expired")
        self._world.note(f"group {self.name}: {member.process} expired")
        member.expired = True
        self.members.pop(member.id, None)
        self._world.judge.deaths(f"session of {member.process}", self.name)
        self._rebalance(3.0)

    def refresh(self) -> None:
        """The group looks at the topics again."""
        if self.members:
            self._rebalance(0.1)

    def owner(self, place: Place) -> Member | None:
        return next((member for member in self.members.values() if place in member.owned), None)

    def commit(self, member: Member, commits: Mapping[Place, Commit]) -> None:
        """The broker takes the offsets, whoever owns the partitions."""
        for place, commit in commits.items():
            if place[0] in self._world.log.topics:
                self.offsets[place] = commit
                self._world.judge.committed(self.name, place, commit, str(member.process))

    def drop_topic(self, name: str) -> None:
        self.offsets = {place: commit for place, commit in self.offsets.items() if place[0] != name}

    def _rebalance(self, at_most: float) -> None:
        rng, now = self._world.rng, self._world.now
        self.settles_at = max(self.settles_at, now + rng.random() * at_most)
        members = [self.members[number] for number in sorted(self.members)]
        places = [
            (name, p)
            for name, topic in sorted(self._world.log.topics.items())
            if any(name in member.topics for member in members)
            for p in range(len(topic.partitions))
        ]
        most = -(-len(places) // len(members)) if members else 0
        free = set(places)
        for member in members:
            kept = sorted(member.target & free)
            rng.shuffle(kept)
            member.target = set(kept[:most])
            free -= member.target
        for place in sorted(free):
            least = min(members, key=lambda member: (len(member.target), rng.random()), default=None)
            if least is not None:
                least.target.add(place)
        for member in members:
            member.consumer.notify()


@dataclass(eq=False, slots=True)
class CommitRequest:
    """An OffsetCommit on its way to the coordinator."""

    member: Member | None
    commits: dict[Place, Commit]
    error: int | None = None
    """Kafka's error code, once it is answered."""
    answered: bool = False
    waiter: Task | None = None


class SimConsumer:
    """The client library's `Consumer`, as far as `GroupConsumer` uses it, of one instance and pipeline.

    Rules modelled: callbacks are called inside `poll` and `close`; requests of one consumer are answered in order; a
    synchronous commit waits for its answer without limit; the report on an asynchronous one comes with a later `poll`.
    """

    numbers = itertools.count(1)

    def __init__(self, world: World, process: Process, config: Mapping[str, Any]) -> None:
        self._world = world
        self._group = world.group(config["group.id"])
        self._on_commit = config.get("on_commit")
        self._session = config["session.timeout.ms"] / 1000
        self._member: Member | None = None
        self._topics: tuple[str, ...] = ()
        self._requests: list[CommitRequest] = []
        self._reports: list[CommitRequest] = []
        self._sleeper: Task | None = None
        self._callbacks: dict[str, Any] = {}
        self._subscribed = self._closed = False
        self.in_revoke: set[Place] = set()
        self._refused_places: set[Place] = set()
        """Partitions whose last commit was refused."""
        self.process = process
        self.answered_at = world.now
        """When a heartbeat was answered last."""

    def subscribe(self, topics: Sequence[str], **callbacks: Any) -> None:
        self._topics, self._callbacks, self._subscribed = tuple(topics), callbacks, True

    def unsubscribe(self) -> None:
        """Leave the group; what is assigned is revoked by the next `poll`."""
        self._subscribed = False

    def incremental_assign(self, partitions: object) -> None: ...
    def incremental_unassign(self, partitions: object) -> None: ...
    def pause(self, partitions: object) -> None: ...

    # -- rebalances ------------------------------------------------------------------------

    def poll(self, timeout: float) -> None:
        """Serve one round of the rebalance, or wait for one."""
        world = self._world
        world.network.call(self.process)
        self._report()
        if self._closed:
            raise RuntimeError("Consumer closed")
        if not self._reaches_broker():
            self._check_session()
            world.scheduler.block(max(timeout, 0.001))
            return
        member = self._member
        if not self._subscribed:
            self._leave()
        elif member is None:
            self._member = Member(next(self.numbers), self, self._topics, world.now)
            self._group.join(self._member)
        elif member.expired:
            self._lose()
        elif world.now >= self._group.settles_at and (self._serve_revocation(member) or self._serve_assignment(member)):
            return
        if timeout > 0:
            moves = self._member is not None and self._member.target != self._member.owned
            self._sleeper = world.scheduler.current
            world.scheduler.block(min(timeout, max(0.01, self._group.settles_at - world.now)) if moves else timeout)
            self._sleeper = None

    def _call(self, name: str, places: Iterable[Place]) -> None:
        self._callbacks[name](self, [TopicPartition(*place) for place in places])

    def _serve_revocation(self, member: Member) -> bool:
        gone = sorted(member.owned - member.target)
        if not gone:
            return False
        self._world.revoking(self._group.name, gone, self.process)
        self.in_revoke = set(gone)
        try:
            self._call("on_revoke", gone)
        finally:
            self.in_revoke = set()
        while self._requests and not member.expired:
            # Requests of one connection are served in order: the group hears of the release after the commits.
            self._world.scheduler.block(0.2)
        self._release(gone)
        member.owned.difference_update(gone)
        for other in self._group.members.values():
            other.consumer.notify()
        return True

    def _serve_assignment(self, member: Member) -> bool:
        taken = {place for other in self._group.members.values() if other is not member for place in other.owned}
        new = sorted(member.target - member.owned - taken)
        if not new:
            return False
        member.owned.update(new)
        self._world.judge.assigned(self._group.name, new, str(self.process))
        self._call("on_assign", new)
        return True

    def _lose(self) -> None:
        member, self._member = self._member, None
        if member is not None and member.owned:
            # Its entry at the coordinator keeps them until the session ends there, too.
            self._call("on_lost", sorted(member.owned))

    def _leave(self) -> None:
        member = self._member
        if member is not None and member.expired:
            self._lose()
        elif member is not None:
            if member.owned:
                self._call("on_revoke", sorted(member.owned))
            self._release(member.owned)
            self._group.leave(member)
            self._member = None

    def _release(self, places: Iterable[Place]) -> None:
        """I10 needs a broker that takes the last commit: where it refused until the end, the window is repeated."""
        if self._refused_places.intersection(places):
            self._world.judge.deaths("commits were refused until the end", self._group.name)
        self._refused_places.difference_update(places)

    def _check_session(self) -> None:
        """A client whose heartbeats are not answered gives its partitions up by itself, too."""
        if self._member is not None and self._world.now - self.answered_at > self._session:
            self._world.judge.deaths(f"session of {self.process} ended by itself", self._group.name)
            self._lose()

    def _reaches_broker(self) -> bool:
        return not self._world.log.away and self.process not in self._world.network.cut

    def is_member(self, member: Member) -> bool:
        return self._member is member

    def notify(self) -> None:
        if self._sleeper is not None:
            self._world.scheduler.wake(self._sleeper)

    # -- commits ---------------------------------------------------------------------------

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        world = self._world
        world.hook("before commit", self.process)
        world.network.call(self.process)
        commits = {(tp.topic, tp.partition): Commit(tp.offset, tp.metadata or "") for tp in offsets}
        request = CommitRequest(self._member, commits)
        self._requests.append(request)
        answer: Answer = world.faults.commit_answer(self.process) if self._reaches_broker() else "late"
        if answer in ("taken", "refused") and len(self._requests) == 1:
            self._answer(request, answer)
        else:
            world.situations.reach("commit with unknown result")
            # I10 needs a broker that takes the last commit: a member that leaves without its answer may be repeated.
            world.judge.deaths("a commit without an answer", self._group.name)
            world.spawn_in(self.process, "commit on its way", lambda: self._answer_later(request, answer))
        if asynchronous:
            if request.error is not None or not request.answered:
                # Inside a callback its fate cannot be learnt; the next owner may have to repeat the window.
                world.judge.deaths("a commit inside a callback without success", self._group.name)
            self._reports.append(request)
            return []
        while not request.answered:
            request.waiter = world.scheduler.current
            world.scheduler.block(60.0)
        world.network.call(self.process)
        if request.error is not None:
            raise KafkaException(KafkaError(request.error))
        world.hook("after commit", self.process)
        return list(offsets)

    def _answer_later(self, request: CommitRequest, answer: Answer) -> None:
        """No answer for some seconds. Requests before this one are answered first."""
        world, delay = self._world, 1.0 + self._world.rng.random() * 9
        if answer == "lost answer" and self._requests[0] is request:
            self._take(request)
            world.note(f"{self.process}: the answer to a commit of {self._group.name} is delayed")
        world.scheduler.block(delay)
        while not self._reaches_broker() or self._requests[0] is not request:
            # A client that lost its connection takes a moment to have another one.
            world.scheduler.block(0.2 + world.rng.random() * 3)
        self._answer(request, answer)

    def _answer(self, request: CommitRequest, answer: Answer) -> None:
        if answer == "refused":
            request.error = KafkaError.REBALANCE_IN_PROGRESS
        elif answer == "lost request":
            request.error = KafkaError.REQUEST_TIMED_OUT
        else:
            self._take(request)
        if request.error is not None:
            self._refused(request)
        request.answered = True
        self._requests.remove(request)
        if request.waiter is not None:
            self._world.scheduler.wake(request.waiter)

    def _take(self, request: CommitRequest) -> None:
        """The coordinator looks at the member only, not at who owns the partitions."""
        member = request.member
        if member is None or member.expired or member.id not in self._group.members:
            request.error = KafkaError.UNKNOWN_MEMBER_ID
        else:
            self._group.commit(member, request.commits)
            self._refused_places.difference_update(request.commits)

    def _refused(self, request: CommitRequest) -> None:
        group, store = self._group, self._world.store
        self._refused_places.update(request.commits)
        self._world.note(f"{self.process}: commit of {group.name} refused {commits_text(request.commits)}")
        if any(store.has_letters_above(group.name, place, group.offsets) for place in request.commits):
            self._world.situations.reach("commit refused after settle")

    def _report(self) -> None:
        """Reports on asynchronous commits."""
        for request in [request for request in self._reports if request.answered]:
            self._reports.remove(request)
            if self._on_commit is not None:
                error = None if request.error is None else KafkaError(request.error)
                self._on_commit(error, [])

    def committed(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        world, end = self._world, self._world.now + max(0.0, timeout)
        world.network.call(self.process)
        while not self._reaches_broker() or self._requests:
            if world.now >= end:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            world.scheduler.block(min(0.3, max(0.01, end - world.now)))
        found = []
        for tp in partitions:
            commit = self._group.offsets.get((tp.topic, tp.partition))
            found.append(
                TopicPartition(tp.topic, tp.partition)
                if commit is None
                else TopicPartition(tp.topic, tp.partition, commit.offset, commit.metadata)
            )
        return found

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the group; revocations are served on the way out, requests without an answer are waited for."""
        while self._requests:
            self._world.scheduler.block(0.3)
        self._world.network.call(self.process)
        if self._member is not None and self._member.owned:
            self._world.note(f"{self.process}: a closed member of {self._group.name} leaves late")
        if self._reaches_broker():
            self._leave()
        # Where no broker is reached, the coordinator expires the member some time later.
        self._member, self._closed = None, True


@contextmanager
def simulated_clients(current: Callable[[], World]) -> Iterator[None]:
    """`GroupConsumer` uses the simulated client library for as long as this is open."""

    def make(config: Mapping[str, Any]) -> SimConsumer:
        world = current()
        task = world.scheduler.current
        assert task is not None, "a group consumer is made in a thread of an instance"
        return SimConsumer(world, task.process, config)

    with patch.object(group_consumer, "Consumer", make):
        yield


def commits_text(commits: Mapping[Place, Commit]) -> str:
    return ", ".join(f"{topic}/{p}={commit.offset}" for (topic, p), commit in commits.items())


def coordinate(world: World, session_timeout: float) -> Callable[[], None]:
    """The coordinator's thread: expires members that it has not heard of for longer than their session."""

    def loop() -> None:
        while True:
            world.scheduler.block(0.4 + world.rng.random())
            for group in list(world.groups.values()):
                for member in list(group.members.values()):
                    if world.log.away:
                        continue  # nothing is expired; sessions begin anew when the coordinator is back
                    process, consumer = member.process, member.consumer
                    present = process.alive and not process.frozen and process not in world.network.cut
                    if present and consumer.is_member(member):
                        member.last_seen = consumer.answered_at = world.now
                    elif world.now - member.last_seen > session_timeout:
                        group.expire(member)

    return loop
