"""A pipeline in its group: what refusals and missing leaders do to newly assigned partitions."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.clock import Clock
from penstock.engine.pipelines.group import GroupMembership
from penstock.kafka.admin import Watermarks
from tests.support.fake_group import CommitFate, FakeGroup


class Cluster:
    def __init__(self) -> None:
        self.marks = Watermarks({("t", p): (0, 10) for p in range(3)})

    def topics(self, timeout: float | None = None) -> dict[str, int]:
        return {"t": 3}

    def topic_ids(self, names: list[str]) -> dict[str, str]:
        return {name: f"id-{name}" for name in names}

    def find_watermarks(self, _places: object) -> Watermarks:
        return self.marks


class Scene:
    """One member that was given all partitions."""

    def __init__(self) -> None:
        self.now = 0.0
        self.group = FakeGroup("p", {"t": 3}, clock=Clock(monotonic=lambda: self.now, sleep=lambda _seconds: None))
        self.cluster = Cluster()
        spec = PipelineSpec.model_validate(
            {
                "name": "p",
                "source": {
                    "config": {
                        "topics": ["t"],
                        "format": "json",
                        "connection": {"bootstrap": "x:1"},
                        "start": "earliest",
                    }
                },
                "action": {"type": "hello_world"},
            }
        )
        store = SimpleNamespace(offsets=SimpleNamespace(mirrored=lambda _group: {}))
        around: Any = SimpleNamespace(cluster=self.cluster, store=store, instance="i", session_timeout=10.0)
        owner: Any = SimpleNamespace(lock=threading.RLock(), drain=lambda _p: None, dropped=lambda _p: None)
        client: Any = None
        self.membership = GroupMembership(spec, client, around, owner)
        member = self.group.consumer(None, "p", self.membership, session_timeout=10.0, client_id="c")
        self.membership._member = member  # type: ignore[assignment]  # the interface is the same
        member.join(["t"])
        for _ in range(3):
            member.poll(0.0)

    def resolve(self) -> bool:
        self.membership._retry.until = 0.0
        return self.membership.resolve()


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("fate", ["refuse", "lose_request", "lose_answer"])
def test_i06_a_refused_start_commit_is_tried_again_and_leaves_no_group(scene: Scene, fate: CommitFate) -> None:
    scene.group.fate = lambda _member, _commits: fate
    assert not scene.resolve()
    assert scene.membership.owned == {}
    assert scene.membership._trouble
    scene.group.fate = lambda _member, _commits: "accept"
    assert scene.resolve()
    assert sorted(scene.membership.owned) == [("t", 0), ("t", 1), ("t", 2)]
    assert scene.membership._trouble is None


def test_one_partition_without_a_leader_holds_up_no_other(scene: Scene) -> None:
    everything = scene.cluster.marks
    found = {tp: marks for tp, marks in everything.found.items() if tp != ("t", 1)}
    scene.cluster.marks = Watermarks(found, {("t", 1): "t/1 has no leader"})
    assert scene.resolve()
    assert sorted(scene.membership.owned) == [("t", 0), ("t", 2)]
    assert scene.membership._trouble == "t/1 has no leader"
    assert not scene.membership.well
    scene.cluster.marks = everything
    assert scene.resolve()
    assert sorted(scene.membership.owned) == [("t", 0), ("t", 1), ("t", 2)]
    assert scene.membership.well
