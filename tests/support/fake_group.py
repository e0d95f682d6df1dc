"""A consumer group in memory, and its members with the interface of `GroupConsumer`.

Nothing here has a thread or a time of its own: tests and the simulation call the members, and give a `Clock`. What it
does is held to what a real broker does by `tests/behaviour/kafka/test_group.py`:

- A rebalance begins when a member joins, leaves or expires. Members learn of it by a heartbeat and join again with what
  they own. When all have, there is a new generation. A partition that moves is first taken from its owner, in one
  generation, and given to the next owner in a later one, after `revoked` has returned.
- `revoked`, `assigned` and `lost` are called from inside `poll` (and `revoked` from inside `close`). Every generation
  calls `assigned`, also with an empty list.
- A commit needs a member of the current generation; the broker does not look at who owns the partition.
- A member whose last heartbeat is older than the session timeout is expired by the group. Its commits are refused as
  lost, and its next `poll` calls `lost`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.core.clock import SYSTEM, Clock
from penstock.core.deadline import Deadline
from penstock.core.errors import ConfigError
from penstock.kafka.group_consumer import Commit, CommitRefused, RebalanceListener

Partition = tuple[str, int]

METADATA_LIMIT = 4_095
"""Bytes of commit metadata that a broker accepts by default."""

CommitFate = Literal["accept", "refuse", "lose_answer", "lose_request", "delay"]
"""What becomes of a commit: answered as the broker answers it; refused for now (the coordinator is loading); applied,
without an answer; not applied, without an answer; on its way until `deliver` or the member's next call."""


def _accept(_member: FakeGroupConsumer, _commits: Mapping[Partition, Commit]) -> CommitFate:
    return "accept"


@dataclass(slots=True)
class _Member:
    """A member as the group's coordinator knows it."""

    subscription: tuple[str, ...]
    generation: int
    last_heartbeat: float
    session_timeout: float
    owned: frozenset[Partition] = frozenset()
    """What it said to own when it last joined."""
    joined: bool = False
    """True: it has joined the rebalance that is under way."""
    assignment: frozenset[Partition] | None = None
    """Its share of the current generation, until it has fetched it."""


@dataclass(slots=True)
class _Request:
    """A commit on its way to the coordinator."""

    member_id: str
    generation: int
    commits: dict[Partition, Commit]


class FakeGroup:
    """The coordinator's side of one group, and the topics that it may subscribe to."""

    def __init__(self, name: str, topics: Mapping[str, int], *, clock: Clock = SYSTEM) -> None:
        """`topics`: number of partitions by name."""
        self.name = name
        self.topics = dict(topics)
        self.offsets: dict[Partition, Commit] = {}
        """Committed offsets."""
        self.history: list[tuple[Partition, Commit]] = []
        """Every commit that was applied, in order."""
        self.generation = 0
        self.fate: Callable[[FakeGroupConsumer, Mapping[Partition, Commit]], CommitFate] = _accept
        """Decides what becomes of each commit."""
        self.unavailable = False
        """True: the coordinator answers nothing. Heartbeats and joins do not arrive; sessions go on to expire."""
        self.clock = clock
        self._members: dict[str, _Member] = {}
        self._rebalancing = False
        self._numbers = itertools.count(1)

    # -- what tests do ---------------------------------------------------------------------

    def consumer(
        self,
        client: object,
        group: str,
        listener: RebalanceListener,
        *,
        session_timeout: float,
        client_id: str,
        commit_patience: float = 3.0,
        **_: Any,
    ) -> FakeGroupConsumer:
        """Takes the place of the class `GroupConsumer`."""
        assert group == self.name, f"a consumer of group {group} in group {self.name}"
        return FakeGroupConsumer(
            self, listener, session_timeout=session_timeout, client_id=client_id, commit_patience=commit_patience
        )

    def rebalance(self) -> None:
        """Begin a rebalance, as after a change of a topic's partitions."""
        self._rebalancing = bool(self._members)
        for member in self._members.values():
            member.joined = False

    def expire(self, consumer: FakeGroupConsumer) -> None:
        """End a member's session, as if its heartbeats had not arrived."""
        self._remove(consumer.member_id)

    def tick(self) -> None:
        """Expire the members whose session is over; called by every request of a member."""
        now = self.clock.monotonic()
        late = [id_ for id_, member in self._members.items() if now - member.last_heartbeat > member.session_timeout]
        for member_id in late:
            self._remove(member_id)

    @property
    def is_stable(self) -> bool:
        """True: no rebalance is under way, and every member has fetched its share."""
        return not self._rebalancing and all(member.assignment is None for member in self._members.values())

    @property
    def member_ids(self) -> list[str]:
        return list(self._members)

    # -- requests of members ---------------------------------------------------------------

    def join(self, subscription: Sequence[str], session_timeout: float) -> str:
        """A new member; returns its id. It has a generation once all members have joined."""
        member_id = f"member-{next(self._numbers)}"
        self._members[member_id] = _Member(tuple(subscription), -1, self.clock.monotonic(), session_timeout)
        self.rebalance()
        return member_id

    def is_member(self, member_id: str) -> bool:
        self.tick()
        return member_id in self._members

    def heartbeat(self, member_id: str) -> None:
        if member_id in self._members:
            self._members[member_id].last_heartbeat = self.clock.monotonic()

    def rejoin(self, member_id: str, owned: Iterable[Partition]) -> None:
        """Join the rebalance that is under way. The last member to join completes it."""
        member = self._members[member_id]
        if not self._rebalancing or member.joined:
            return
        member.joined, member.owned = True, frozenset(owned)
        if all(member.joined for member in self._members.values()):
            self._complete()

    def generation_of(self, member_id: str) -> int:
        """The generation that a member is in; -1 where it has none. A client learns it without `poll`."""
        member = self._members.get(member_id)
        return -1 if member is None else member.generation

    def has_share(self, member_id: str) -> bool:
        """Whether a member has a share to fetch."""
        return self._members[member_id].assignment is not None

    def fetch_assignment(self, member_id: str) -> frozenset[Partition] | None:
        """The share of a member, once per generation."""
        member = self._members[member_id]
        found, member.assignment = member.assignment, None
        return found

    def leave(self, member_id: str) -> None:
        self._remove(member_id)

    def apply(self, request: _Request) -> None:
        """A commit arrives; raises `CommitRefused`."""
        self.tick()
        member = self._members.get(request.member_id)
        if member is None:
            raise CommitRefused("the broker refused a commit: unknown member", lost=True)
        if member.generation != request.generation or request.generation < 0:
            raise CommitRefused("the broker refused a commit: illegal generation", lost=True)
        self.heartbeat(request.member_id)
        if any(len(commit.metadata.encode()) > METADATA_LIMIT for commit in request.commits.values()):
            raise MetadataTooLarge("the broker refused a commit: offset metadata too large", lost=False)
        self.offsets.update(request.commits)
        self.history.extend(request.commits.items())

    # -- the assignor ----------------------------------------------------------------------

    def _remove(self, member_id: str) -> None:
        if self._members.pop(member_id, None) is not None:
            self.rebalance()

    def _complete(self) -> None:
        self.generation += 1
        self._rebalancing = False
        target = self._balanced()
        owner = {tp: id_ for id_, member in self._members.items() for tp in member.owned}
        for member_id, member in self._members.items():
            # A partition that another member still owns is given only after that one has revoked it.
            ready = {tp for tp in target[member_id] if owner.get(tp, member_id) == member_id}
            member.assignment, member.generation = frozenset(ready), self.generation

    def _balanced(self) -> dict[str, set[Partition]]:
        """Each member keeps what it has up to its fair share; the rest goes to the members with least."""
        eligible = {
            (topic, p): [id_ for id_, member in self._members.items() if _subscribes(member.subscription, topic)]
            for topic, count in sorted(self.topics.items())
            for p in range(count)
        }
        shared = [tp for tp, members in eligible.items() if members]
        most, larger = divmod(len(shared), max(1, len(self._members)))
        target: dict[str, set[Partition]] = {id_: set() for id_ in self._members}
        for member_id in sorted(self._members, key=lambda id_: -len(self._members[id_].owned)):
            kept = sorted(tp for tp in self._members[member_id].owned if member_id in eligible.get(tp, ()))
            share = most + (1 if larger > 0 else 0)
            larger -= 1 if len(kept) >= share and larger > 0 else 0
            # Members own disjoint partitions, unless one was expired meanwhile and does not know.
            taken = set().union(*target.values())
            target[member_id] = set([tp for tp in kept if tp not in taken][-share:] if share else ())
        for tp in shared:
            if not any(tp in some for some in target.values()):
                target[min(eligible[tp], key=lambda id_: len(target[id_]))].add(tp)
        return target


class MetadataTooLarge(CommitRefused):
    """A refusal that `GroupConsumer` also reports as `fatal`."""


def _subscribes(subscription: Sequence[str], topic: str) -> bool:
    return any(re.match(name, topic) if name.startswith("^") else name == topic for name in subscription)


@dataclass(slots=True)
class _Shares:
    """What a member has to serve from inside `poll`."""

    revoked: list[Partition] = field(default_factory=list)
    assigned: list[Partition] | None = None
    lost: list[Partition] = field(default_factory=list)


class FakeGroupConsumer:
    """A member with the interface of `GroupConsumer`."""

    def __init__(
        self,
        group: FakeGroup,
        listener: RebalanceListener,
        *,
        session_timeout: float = 10.0,
        client_id: str = "fake",
        commit_patience: float = 3.0,
    ) -> None:
        self.last_error: str | None = None
        self.fatal: ConfigError | None = None
        self.client_id = client_id
        self.owned: set[Partition] = set()
        """What this member believes to own."""
        self.member_id = ""
        self._group = group
        self._listener = listener
        self._session_timeout = session_timeout
        self._patience = commit_patience
        self._subscription: tuple[str, ...] = ()
        self._open: _Request | None = None
        """A commit on its way, without an answer."""
        self._in_callback = False
        self._closed = False

    # -- as GroupConsumer ------------------------------------------------------------------

    def join(self, topics: Sequence[str]) -> None:
        self._subscription = tuple(topics)

    def poll(self, timeout: float) -> bool:
        """Heartbeat and serve what a rebalance brings; sleeps on the clock while there is nothing to serve."""
        deadline = Deadline.after(timeout, self._group.clock)
        while not self._closed:
            if self._open is None and self._serve():
                return True
            self.heartbeat()
            if deadline.expired:
                return self._open is None
            self._group.clock.sleep(min(0.1, deadline.remaining))
        return False

    def commit(self, commits: Mapping[Partition, Commit]) -> None:
        if self._closed:
            raise CommitRefused("the consumer is closed", lost=True)
        self._await_open()
        request = _Request(self.member_id, self._group.generation_of(self.member_id), dict(commits))
        fate = "delay" if self._group.unavailable else self._group.fate(self, commits)
        if fate == "refuse":
            raise CommitRefused("the broker refused a commit: coordinator loading", lost=False)
        if fate == "accept":
            self._apply(request)
            return
        if fate == "lose_answer":
            self._apply(request)
        elif fate == "delay":
            self._open = request
        self._group.clock.sleep(self._patience)
        raise CommitRefused("the broker has not answered a commit", lost=False, unknown=True)

    def committed(
        self, partitions: Iterable[Partition], timeout: float = 10.0
    ) -> dict[Partition, tuple[int | None, str]]:
        self._await_open()
        if self._group.unavailable:
            self._group.clock.sleep(timeout)
            raise CommitRefused("committed offsets cannot be read: timed out", lost=False)
        found = {tp: self._group.offsets.get(tp) for tp in partitions}
        return {tp: (None, "") if at is None else (at.offset, at.metadata) for tp, at in found.items()}

    def close(self) -> None:
        """Leave the group. A commit on its way stays on its way, and its member in the group until it arrives."""
        if self._closed:
            return
        if self._open is not None and self._group.unavailable:
            self._closed = True
            return
        self.deliver()
        revoked, self._in_callback = sorted(self.owned), True
        try:
            if revoked and self._group.is_member(self.member_id):
                self._listener.revoked(revoked)
            elif revoked:
                self._listener.lost(revoked)
        finally:
            self._in_callback = False
        self.owned.clear()
        self._closed = True
        if not self._group.unavailable:
            self._group.leave(self.member_id)

    # -- what tests do ---------------------------------------------------------------------

    def heartbeat(self) -> None:
        """What the client's own thread does without `poll`: heartbeats, and joining a rebalance that is under way."""
        group = self._group
        if group.unavailable or self._closed or not self.member_id or not group.is_member(self.member_id):
            return
        group.heartbeat(self.member_id)
        # A member that is inside a callback, or has one to serve, joins the next rebalance afterwards.
        if not self._in_callback and not group.has_share(self.member_id):
            group.rejoin(self.member_id, self.owned)

    def deliver(self) -> CommitRefused | None:
        """Let a delayed commit arrive now. Its answer is dropped, as a late one is; returned for tests."""
        request, self._open = self._open, None
        try:
            if request is not None:
                self._group.apply(request)
        except CommitRefused as error:
            return error
        return None

    # -- inside ----------------------------------------------------------------------------

    def _await_open(self) -> None:
        if self._open is None:
            return
        if self._group.unavailable:
            self._group.clock.sleep(self._patience)
            raise CommitRefused("the broker has not answered an earlier commit", lost=False, unknown=True)
        self.deliver()

    def _apply(self, request: _Request) -> None:
        try:
            self._group.apply(request)
        except MetadataTooLarge as error:
            self.fatal = ConfigError(str(error), hint="raise the broker's offset.metadata.max.bytes")
            raise

    def _serve(self) -> bool:
        """Call the listener with what there is; True where it was called."""
        shares = self._shares()
        if shares is None:
            return False
        self._in_callback = True
        try:
            if shares.lost:
                self._listener.lost(shares.lost)
                self.owned.difference_update(shares.lost)
            if shares.revoked:
                self._listener.revoked(shares.revoked)
                self.owned.difference_update(shares.revoked)
            if shares.assigned is not None:
                self.owned.update(shares.assigned)
                self._listener.assigned(shares.assigned)
        finally:
            self._in_callback = False
        if shares.revoked and self._group.is_member(self.member_id):
            # The members join again, so that the next owner gets what was revoked.
            self._group.rebalance()
        return True

    def _shares(self) -> _Shares | None:
        group = self._group
        if not self._subscription:
            return None
        if not self.member_id or not group.is_member(self.member_id):
            lost = sorted(self.owned)
            if not group.unavailable:
                self.member_id = group.join(self._subscription, self._session_timeout)
            return _Shares(lost=lost) if lost else None
        if group.unavailable:
            return None
        self.heartbeat()
        wanted = group.fetch_assignment(self.member_id)
        if wanted is None:
            return None
        return _Shares(revoked=sorted(self.owned - wanted), assigned=sorted(wanted - self.owned))
