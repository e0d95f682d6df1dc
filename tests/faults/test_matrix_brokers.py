"""Faults of brokers and of the group: frozen, killed, restarted one after the other; members that come and go."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tests.faults.checker import NOTHING, Allowance, Fault
from tests.faults.outcome import Row
from tests.faults.scene import SESSION_S, WAIT_S, WINDOW, Scene, fed
from tests.support.group import OtherMember
from tests.support.kafka import KafkaBroker, KafkaCluster
from tests.support.waiting import until

pytestmark = pytest.mark.faults


def coordinator(cluster: KafkaCluster, group: str) -> KafkaBroker:
    """The broker that keeps the group: leader of its partition of the offsets topic."""
    found = cluster.admin.describe_consumer_groups([group])[group].result(20).coordinator
    return next(broker for broker in cluster.brokers if broker.node_id == found.id)


def on_again(scene: Scene) -> float:
    began = time.monotonic()
    scene.more(100)
    return time.monotonic() - began


def test_the_coordinator_is_frozen_for_longer_than_a_session(cluster: KafkaCluster, tmp_path: Path, row: Row) -> None:
    allowed = Allowance.lost_session(WINDOW)
    with Scene(cluster, tmp_path, "frozen-coordinator", replication=3) as scene:
        with fed(scene):
            scene.start()
            scene.more(200)
            broker = coordinator(cluster, scene.name)
            broker.pause()
            time.sleep(SESSION_S * 2)  # the fault itself
            broker.unpause()
            recovered = on_again(scene)
        scene.stop_all()
    row.kept(scene.verdict(allowed), allowed, recovered)


def test_the_coordinator_is_killed_and_comes_back(cluster: KafkaCluster, tmp_path: Path, row: Row) -> None:
    allowed = Allowance.lost_session(WINDOW)
    with Scene(cluster, tmp_path, "killed-coordinator", replication=3) as scene:
        with fed(scene):
            scene.start()
            scene.more(200)
            broker = coordinator(cluster, scene.name)
            broker.kill()
            recovered = on_again(scene)
            broker.start()
            scene.more(200)
        scene.stop_all()
    row.kept(scene.verdict(allowed), allowed, recovered)


def test_every_broker_is_restarted_one_after_the_other(cluster: KafkaCluster, tmp_path: Path, row: Row) -> None:
    allowed, faults = Allowance.lost_session(WINDOW), []
    with Scene(cluster, tmp_path, "rolling", replication=3) as scene:
        with fed(scene):
            scene.start()
            scene.more(100)
            for broker in cluster.brokers:
                began = time.monotonic()
                broker.restart()
                scene.more(200)
                faults.append(Fault(f"restart of broker {broker.node_id}", began, time.monotonic(), allowed))
        scene.stop_all()
    row.kept(scene.verdict(faults=faults), allowed)


def test_all_brokers_are_away_for_longer_than_a_session(cluster: KafkaCluster, tmp_path: Path, row: Row) -> None:
    allowed = Allowance.lost_session(WINDOW)
    with Scene(cluster, tmp_path, "blackout", replication=3) as scene:
        with fed(scene):
            instance = scene.start()
            scene.more(200)
            for broker in cluster.brokers:
                broker.pause()
            instance.wait_log("state=waiting", WAIT_S)
            time.sleep(SESSION_S)  # the fault itself
            for broker in cluster.brokers:
                broker.unpause()
            recovered = on_again(scene)
        scene.stop_all()
    row.kept(scene.verdict(allowed), allowed, recovered)


@pytest.mark.parametrize("ordering", ["partition", "key"])
def test_a_rebalance_storm(cluster: KafkaCluster, tmp_path: Path, row: Row, ordering: str) -> None:
    """A member joins or leaves each second; in good order, so nothing may be repeated."""
    dice = random.Random(11)
    options = {"ordering": "key", "concurrency": 8} if ordering == "key" else {}
    with Scene(cluster, tmp_path, f"storm-{ordering}", replication=3, options=options, work_s=0.001) as scene:
        with fed(scene):
            scene.start()
            scene.more(200)
            others: list[OtherMember] = []
            for _ in range(25):
                if others and (len(others) == 3 or dice.random() < 0.5):
                    others.pop(dice.randrange(len(others))).leave()
                else:
                    others.append(OtherMember(cluster, scene.name, scene.topic, session_s=SESSION_S))
                time.sleep(1.0)  # the fault itself
            for other in others:
                other.leave()
            until(lambda: scene.owners() == [4], WAIT_S, scene.story)
            recovered = on_again(scene)
        scene.stop_all()
    row.kept(scene.verdict(ordering=ordering), NOTHING, recovered)


@pytest.mark.parametrize("way", ["plain", "keyed"])
def test_instances_that_act_come_and_go(cluster: KafkaCluster, tmp_path: Path, row: Row, way: str) -> None:
    """Acts that last almost as long as a drain may: partitions move while one of them runs, and none is cut off."""
    rounds = 3

    def value(seq: int) -> bytes:
        return json.dumps({"seq": seq, "work_s": 1.5 if seq % 60 == 13 else 0}).encode()

    options = {"drain_timeout": "10s"}
    name = f"acting-{way}"
    with Scene(cluster, tmp_path, name, replication=3, values=value, way=way, options=options, rate=60) as scene:
        with fed(scene):
            scene.start()
            scene.more(60)
            for _ in range(rounds):
                second = scene.start()
                until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
                name = second.folder.name
                until(lambda name=name: any(e.instance == name for e in scene.effects()), WAIT_S, scene.story)
                scene.more(60)
                assert second.stop() == 0
                until(lambda: scene.owners() == [4], WAIT_S, scene.story)
                recovered = on_again(scene)
        scene.stop_all_living()
    row.kept(scene.verdict(turns=2 * rounds), NOTHING, recovered)
