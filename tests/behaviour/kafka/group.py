"""What the driver relies on in a consumer group, the same of the fake group and of Apache Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pytest

from penstock.core.errors import Unavailable
from penstock.kafka.group_consumer import Commit, CommitRefused, GroupConsumer, RebalanceListener
from tests.support.fake_group import FakeGroupConsumer

Partition = tuple[str, int]
AnyConsumer = GroupConsumer | FakeGroupConsumer


class Log(RebalanceListener):
    """Writes down what its consumer calls, in one list for all members."""

    def __init__(self, name: str, calls: list[tuple[str, str, list[int]]]) -> None:
        self.name, self.calls = name, calls
        self.owned: set[int] = set()
        self.on_revoke: Callable[[list[Partition]], None] = lambda _partitions: None

    def assigned(self, partitions: list[Partition]) -> None:
        self.owned |= self._note("assigned", partitions)

    def revoked(self, partitions: list[Partition]) -> None:
        self.on_revoke(partitions)
        self.owned -= self._note("revoked", partitions)

    def lost(self, partitions: list[Partition]) -> None:
        self.owned -= self._note("lost", partitions)

    def _note(self, what: str, partitions: list[Partition]) -> set[int]:
        numbers = sorted(p for _, p in partitions)
        if numbers:
            self.calls.append((self.name, what, numbers))
        return set(numbers)


class Scene(ABC):
    """One group on a topic of four partitions, on some broker."""

    topic: str

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, list[int]]] = []
        self.logs: dict[str, Log] = {}
        self.members: dict[str, AnyConsumer] = {}

    def add(self, name: str) -> AnyConsumer:
        log = self.logs[name] = Log(name, self.calls)
        member = self.members[name] = self.make(log)
        member.join([self.topic])
        return member

    def settle(self, **owned: int) -> None:
        """Poll these members until each owns so many partitions."""
        self.poll_until(lambda: all(len(self.logs[name].owned) == count for name, count in owned.items()), *owned)

    def commit(self, name: str, offset: int, *partitions: int, metadata: str = "") -> None:
        """As the driver does: a refusal that is not about the membership is tried again."""
        self.members[name].commit({(self.topic, p): Commit(offset, metadata) for p in partitions})

    def stored(self, name: str) -> dict[int, tuple[int | None, str]]:
        found = self.members[name].committed([(self.topic, p) for p in range(4)])
        return {p: at for (_, p), at in found.items()}

    @abstractmethod
    def make(self, listener: RebalanceListener) -> AnyConsumer: ...

    @abstractmethod
    def poll_until(self, condition: Callable[[], object], *names: str) -> None: ...

    @abstractmethod
    def expire(self, name: str) -> None:
        """Make the group expire a member that does not notice."""

    def close(self) -> None:
        for member in self.members.values():
            member.close()


class GroupSuite:
    """Inherited by each kind of group; a subclass gives `scene`."""

    @pytest.fixture
    def group(self, scene: Scene) -> Iterator[Scene]:
        yield scene
        scene.close()

    def test_a_second_member_gets_its_share_after_it_was_revoked(self, group: Scene) -> None:
        group.add("a")
        group.settle(a=4)
        group.add("b")
        group.settle(a=2, b=2)
        assert group.logs["a"].owned.isdisjoint(group.logs["b"].owned)
        moved = sorted(group.logs["b"].owned)
        assert group.calls == [("a", "assigned", [0, 1, 2, 3]), ("a", "revoked", moved), ("b", "assigned", moved)]

    def test_i02_what_is_committed_while_it_is_revoked_is_there_for_the_next_owner(self, group: Scene) -> None:
        group.add("a")
        group.settle(a=4)
        group.logs["a"].on_revoke = lambda partitions: group.commit("a", 7, *(p for _, p in partitions), metadata="m")
        group.add("b")
        group.settle(a=2, b=2)
        found = group.stored("b")
        assert {found[p] for p in group.logs["b"].owned} == {(7, "m")}
        assert {found[p] for p in group.logs["a"].owned} == {(None, "")}
        group.commit("a", 8, *group.logs["a"].owned)
        assert {group.stored("a")[p] for p in group.logs["a"].owned} == {(8, "")}

    def test_a_member_that_leaves_is_revoked_and_may_commit(self, group: Scene) -> None:
        group.add("a")
        group.add("b")
        group.settle(a=2, b=2)
        left = sorted(group.logs["a"].owned)
        group.logs["a"].on_revoke = lambda partitions: group.commit("a", 5, *(p for _, p in partitions))
        group.members["a"].close()
        assert group.calls[-1] == ("a", "revoked", left)
        group.settle(b=4)
        assert [group.stored("b")[p] for p in left] == [(5, "")] * 2

    def test_the_broker_does_not_look_at_the_owner_of_a_partition(self, group: Scene) -> None:
        group.add("a")
        group.add("b")
        group.settle(a=2, b=2)
        group.commit("a", 50, *group.logs["b"].owned)
        group.commit("b", 20, *group.logs["a"].owned)
        assert {group.stored("a")[p] for p in group.logs["b"].owned} == {(50, "")}
        assert {group.stored("a")[p] for p in group.logs["a"].owned} == {(20, "")}

    def test_an_expired_member_cannot_commit_and_is_told_what_it_lost(self, group: Scene) -> None:
        group.add("a")
        group.add("b")
        group.settle(a=2, b=2)
        before = group.stored("b")
        held = sorted(group.logs["a"].owned)
        group.expire("a")
        group.settle(b=4)
        with pytest.raises(CommitRefused) as caught:
            group.commit("a", 99, *held)
        assert (caught.value.lost, caught.value.unknown) == (True, False)
        assert isinstance(caught.value, Unavailable)
        assert group.stored("b") == before
        group.settle(a=2, b=2)
        assert ("a", "lost", held) in group.calls
        group.commit("a", 3, *group.logs["a"].owned)

    def test_commits_come_back_with_their_metadata_up_to_the_brokers_limit(self, group: Scene) -> None:
        group.add("a")
        group.settle(a=4)
        group.commit("a", 11, 0, metadata="x" * 4_000)
        assert group.stored("a") == {0: (11, "x" * 4_000), 1: (None, ""), 2: (None, ""), 3: (None, "")}
        with pytest.raises(CommitRefused) as caught:
            group.commit("a", 12, 0, metadata="x" * 4_096)
        assert not caught.value.lost
        assert group.members["a"].fatal is not None
        assert group.stored("a")[0] == (11, "x" * 4_000)
