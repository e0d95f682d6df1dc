"""The fake group's faults: what the real broker is not easily made to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from penstock.core.clock import Clock
from penstock.kafka.group_consumer import Commit, CommitRefused, GroupConsumer, RebalanceListener
from tests.support.fake_group import CommitFate, FakeGroup, FakeGroupConsumer

TP = ("t", 0)


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.on_revoke: Callable[[], None] = lambda: None

    def assigned(self, partitions: list[tuple[str, int]]) -> None:
        self.calls.append(f"assigned {[p for _, p in partitions]}")

    def revoked(self, partitions: list[tuple[str, int]]) -> None:
        self.on_revoke()
        self.calls.append(f"revoked {[p for _, p in partitions]}")

    def lost(self, partitions: list[tuple[str, int]]) -> None:
        self.calls.append(f"lost {[p for _, p in partitions]}")


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.group = FakeGroup("g", {"t": 2}, clock=Clock(monotonic=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def member(self, heard: Heard) -> FakeGroupConsumer:
        made = self.group.consumer(None, "g", heard, session_timeout=10.0, client_id="c")
        made.join(["t"])
        return made

    def settle(self, *members: FakeGroupConsumer) -> None:
        for _ in range(10):
            for member in members:
                member.poll(0.0)
        assert self.group.is_stable


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def member(world: World, heard: Heard) -> FakeGroupConsumer:
    made = world.member(heard)
    world.settle(made)
    return made


@pytest.mark.parametrize(
    ("fate", "unknown", "stored"),
    [("refuse", False, None), ("lose_answer", True, 5), ("lose_request", True, None), ("delay", True, None)],
)
def test_what_becomes_of_a_commit(
    world: World, member: FakeGroupConsumer, fate: CommitFate, *, unknown: bool, stored: int | None
) -> None:
    world.group.fate = lambda _member, _commits: fate
    with pytest.raises(CommitRefused) as caught:
        member.commit({TP: Commit(5)})
    assert (caught.value.unknown, caught.value.lost) == (unknown, False)
    assert (world.group.offsets[TP].offset if TP in world.group.offsets else None) == stored
    world.group.fate = lambda _member, _commits: "accept"
    member.commit({TP: Commit(6)})
    assert [commit.offset for _, commit in world.group.history][-1] == 6, "in the order in which they were sent"
    assert len(world.group.history) == (2 if fate in ("lose_answer", "delay") else 1)


def test_i02_a_delayed_commit_of_a_former_generation_is_refused_when_it_arrives(
    world: World, member: FakeGroupConsumer
) -> None:
    world.group.fate = lambda _member, _commits: "delay"
    with pytest.raises(CommitRefused):
        member.commit({TP: Commit(5)})
    member.poll(0.5)
    world.group.expire(member)
    error = member.deliver()
    assert error is not None
    assert error.lost
    assert world.group.offsets == {}


def test_a_member_that_is_not_polled_expires_with_its_session(
    world: World, member: FakeGroupConsumer, heard: Heard
) -> None:
    other = world.member(Heard())
    world.now += 9.0
    member.heartbeat()
    world.now += 9.0
    world.settle(other, member)
    assert "lost [0, 1]" not in heard.calls
    world.now += 6.0
    other.heartbeat()
    world.now += 6.0
    world.settle(other)
    assert other.owned == {("t", 0), ("t", 1)}
    assert member.owned, "it does not know"
    with pytest.raises(CommitRefused) as caught:
        member.commit({TP: Commit(1)})
    assert caught.value.lost


def test_while_the_coordinator_is_away_nothing_is_answered_and_sessions_expire(
    world: World, member: FakeGroupConsumer, heard: Heard
) -> None:
    world.group.unavailable = True
    began = world.now
    with pytest.raises(CommitRefused) as caught:
        member.commit({TP: Commit(5)})
    assert caught.value.unknown
    assert world.now == began + 3.0
    with pytest.raises(CommitRefused):
        member.committed([TP])
    member.poll(8.0)
    world.group.unavailable = False
    assert member.deliver() is not None, "its session was over when the commit arrived"
    member.poll(0.0)
    assert heard.calls[-1] == "lost [0, 1]"
    world.settle(member)
    assert heard.calls[-1] == "assigned [0, 1]"


def test_a_closed_member_with_a_commit_under_way_stays_until_its_session_is_over(
    world: World, member: FakeGroupConsumer, heard: Heard
) -> None:
    world.group.unavailable = True
    with pytest.raises(CommitRefused):
        member.commit({TP: Commit(5)})
    member.close()
    assert heard.calls == ["assigned [0, 1]"], "the listener is not called"
    world.group.unavailable = False
    second = Heard()
    successor = world.member(second)
    successor.poll(0.0)
    assert successor.owned == set(), "the former member is still in the group"
    member.deliver()
    assert world.group.offsets[TP] == Commit(5), "a commit of the current generation counts, late or not"
    world.now += 11.0
    world.settle(successor)
    assert second.calls[-1] == "assigned [0, 1]"


def test_partitions_move_only_after_the_owner_has_revoked_them(
    world: World, member: FakeGroupConsumer, heard: Heard
) -> None:
    seen: list[set[tuple[str, int]]] = []
    other = world.member(Heard())
    heard.on_revoke = lambda: (other.poll(0.0), seen.append(set(other.owned)), None)[-1]
    world.settle(member, other)
    assert seen == [set()]
    assert (member.owned, other.owned) == ({("t", 1)}, {("t", 0)})
    world.group.topics["t"] = 4
    world.group.rebalance()
    world.settle(member, other)
    assert len(member.owned) == len(other.owned) == 2
    assert member.owned | other.owned == {("t", p) for p in range(4)}


def test_the_fake_has_the_interface_of_the_real_consumer() -> None:
    names = {name for name in vars(GroupConsumer) if not name.startswith("_")}
    assert names == {"join", "poll", "commit", "committed", "close"}
    for name in names:
        real, fake = (inspect.signature(getattr(each, name)) for each in (GroupConsumer, FakeGroupConsumer))
        assert real == fake, name
    real, fake = inspect.signature(GroupConsumer), inspect.signature(FakeGroup("g", {}).consumer)
    assert list(real.parameters)[:3] == list(fake.parameters)[:3]
    needed = {name for name, given in real.parameters.items() if given.default is given.empty}
    assert needed <= set(fake.parameters)
