"""Consumer groups: membership, cooperative rebalances, sessions and commits.

Rules modelled: a partition moves only after its owner has served the revocation inside `poll`; a member that was
silent for longer than its session is expired, and its partitions are given away without its knowledge; commits of
expired members are refused, commits of live members are taken even for partitions that they do not own; a commit may
be refused while the group rebalances, may never be answered (taken or not), or may be taken late; deleting a topic
drops its offsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.kafka.group_consumer import Commit, CommitRefused
from tests.simulation.scheduler import Process, Task

if TYPE_CHECKING:
    from tests.simulation.world import World

Place = tuple[str, int]
Answer = Literal["taken", "refused", "lost answer", "lost request", "late"]

COMMIT_PATIENCE = 3.0
"""Seconds that a member waits for the answer to a commit."""


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
            kept = sorted((member.target & free))
            rng.shuffle(kept)
            member.target = set(kept[:most])
            free -= member.target
        for place in sorted(free):
            least = min(members, key=lambda member: (len(member.target), rng.random()), default=None)
            if least is not None:
                least.target.add(place)
        for member in members:
            member.consumer.notify()


class SimConsumer:
    """`GroupConsumer` of one instance and pipeline, on the simulated group."""

    numbers = itertools.count(1)

    def __init__(
        self, world: World, process: Process, group: str, listener: Any, *, session_timeout: float
    ) -> None:
        self._world = world
        self._group = world.group(group)
        self._listener = listener
        self._session = session_timeout
        self._member: Member | None = None
        self._topics: tuple[str, ...] = ()
        self._open: float | None = None
        """A commit that the broker has not answered: until when."""
        self._sleeper: Task | None = None
        self._closed = False
        self.in_revoke: set[Place] = set()
        self.process = process
        self.answered_at = world.now
        """When a heartbeat was answered last."""
        self.last_error: str | None = None
        self.fatal: Exception | None = None

    def join(self, topics: Sequence[str]) -> None:
        self._topics = tuple(topics)

    def poll(self, timeout: float) -> None:
        """Serve one round of the rebalance, or wait for one."""
        world = self._world
        world.network.call(self.process)
        if self._unanswered(timeout) or self._closed:
            return
        if not self._reaches_broker():
            self.last_error = "no broker answers"
            self._check_session()
            world.scheduler.block(max(timeout, 0.001))
            return
        member = self._member
        if member is None:
            self._member = Member(next(self.numbers), self, self._topics, world.now)
            self._group.join(self._member)
        elif member.expired:
            self._lose()
        elif world.now >= self._group.settles_at and (self._serve_revocation(member) or self._serve_assignment(member)):
            return
        if timeout > 0:
            self._sleeper = world.scheduler.current
            world.scheduler.block(min(timeout, max(0.01, self._group.settles_at - world.now) if self._moves else timeout))
            self._sleeper = None

    @property
    def _moves(self) -> bool:
        return self._member is not None and self._member.target != self._member.owned

    def _serve_revocation(self, member: Member) -> bool:
        gone = sorted(member.owned - member.target)
        if not gone:
            return False
        self._world.revoking(self._group.name, gone, self.process)
        self.in_revoke = set(gone)
        try:
            self._listener.revoked(gone)
        finally:
            self.in_revoke = set()
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
        self._listener.assigned(new)
        return True

    def _lose(self) -> None:
        member, self._member = self._member, None
        if member is not None and member.owned:
            # Its entry at the coordinator keeps them until the session ends there, too.
            self._listener.lost(sorted(member.owned))

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

    def commit(self, commits: Mapping[Place, Commit]) -> None:
        world = self._world
        world.hook("before commit", self.process)
        world.network.call(self.process)
        if self._unanswered(COMMIT_PATIENCE):
            raise CommitRefused("an earlier commit has no answer yet", lost=False)
        member = self._member
        if member is None or member.expired:
            self._refused(commits)
            raise CommitRefused("unknown member", lost=True)
        answer: Answer = world.faults.commit_answer(self.process) if self._reaches_broker() else "late"
        if answer == "refused":
            self._refused(commits)
            raise CommitRefused("the group is rebalancing", lost=False)
        if answer == "taken":
            self._group.commit(member, commits)
            world.network.call(self.process)
            world.hook("after commit", self.process)
            return
        world.situations.reach("commit with unknown result")
        if answer == "lost answer":
            self._group.commit(member, commits)
            world.note(f"{self.process}: the answer to a commit of {self._group.name} is lost")
        elif answer == "late":
            self._open = world.now + COMMIT_PATIENCE + world.rng.random() * 6
            world.spawn(f"late commit of {self.process}", lambda: self._commit_late(member, dict(commits)))
        world.scheduler.block(COMMIT_PATIENCE)
        raise CommitRefused("the broker has not answered a commit", lost=False)

    def _commit_late(self, member: Member, commits: dict[Place, Commit]) -> None:
        """A request on its way: taken when the broker sees it, if the member still counts then."""
        world = self._world
        while self._open is not None and (world.now < self._open or not self._reaches_broker()):
            world.scheduler.block(max(0.1, self._open - world.now))
            if not self.process.alive:
                return  # the connection is closed with it
        if not member.expired and member.id in self._group.members and world.rng.random() < 0.8:
            world.note(f"{self.process}: a late commit of {self._group.name} is taken")
            self._group.commit(member, commits)
        self._open = None

    def _unanswered(self, patience: float) -> bool:
        """Whether a commit is still open after so many seconds."""
        end = self._world.now + patience
        while self._open is not None and self._world.now < end:
            self._world.scheduler.block(min(0.25, end - self._world.now))
        return self._open is not None

    def _refused(self, commits: Mapping[Place, Commit]) -> None:
        self._world.note(f"{self.process}: commit of {self._group.name} refused {commits_text(commits)}")
        if any(self._world.store.has_letters_above(self._group.name, place, self._group.offsets) for place in commits):
            self._world.situations.reach("commit refused after settle")

    def committed(self, partitions: Iterable[Place], timeout: float = 10.0) -> dict[Place, tuple[int | None, str]]:
        self._world.network.call(self.process)
        if not self._reaches_broker():
            self._world.network.wait_out(timeout)
            raise CommitRefused("committed offsets cannot be read", lost=False)
        found = {place: self._group.offsets.get(place) for place in partitions}
        return {place: (c.offset, c.metadata) if c else (None, "") for place, c in found.items()}

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the group; revocations are served on the way out. With a commit open that happens in the background."""
        if not self._unanswered(COMMIT_PATIENCE):
            self._close()
        else:
            self._world.spawn_in(self.process, "leave", self._close_later)

    def _close_later(self) -> None:
        while self._unanswered(60.0):
            pass
        self._world.note(f"{self.process}: a former member of {self._group.name} leaves late")
        self._close()

    def _close(self) -> None:
        member, self._closed = self._member, True
        if member is None:
            return
        if member.expired:
            self._lose()
        elif member.owned:
            self._listener.revoked(sorted(member.owned))
        self._group.leave(member)
        self._member = None


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
