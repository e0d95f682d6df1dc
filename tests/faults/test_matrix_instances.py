"""Faults of instances: killed at every failpoint, frozen, their processes killed one by one; on three brokers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.checker import NOTHING, Allowance
from tests.faults.outcome import Row
from tests.faults.scene import SESSION_S, WAIT_S, WINDOW, Scene, fed
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaCluster
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

pytestmark = pytest.mark.faults


def value(seq: int) -> bytes:
    """One in twenty fails."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 20 == 7 else None}).encode()


@pytest.fixture(scope="module")
def frozen() -> Iterator[dict[str, str]]:
    """Clock of instances that are frozen: within a write they would keep the lock of a SQLite store."""
    with PostgresServer() as server:
        yield {"PENSTOCK_STORE_URL": server.create_database()}


def scene_of(cluster: KafkaCluster, folder: Path, name: str, **more: object) -> Scene:
    return Scene(cluster, folder, name, replication=3, values=value, **more)  # type: ignore[arg-type]


def fallen(scene: Scene) -> tuple[PenstockProcess, PenstockProcess]:
    """The instance that died, and one that lives."""
    until(lambda: any(not p.running for p in scene.instances), WAIT_S, lambda: f"an instance to die; {scene.story()}")
    return next(p for p in scene.instances if not p.running), next(p for p in scene.instances if p.running)


def handed_over(scene: Scene, living: PenstockProcess, began: float) -> float:
    """Seconds until one that lives has acted on a partition of the one that died."""
    ours = {process.pid for process in living.tree()}
    last = {effect.at.place: effect.pid for effect in scene.effects() if effect.time <= began}
    theirs = {place for place, pid in last.items() if pid not in ours}
    # A worker of the dead one may end its window yet; only processes of the living count.
    orphans = {effect.pid for effect in scene.effects() if effect.at.place in theirs and effect.time <= began}

    def first() -> float | None:
        return next(
            (e.time for e in scene.effects() if e.time > began and e.at.place in theirs and e.pid not in orphans), None
        )

    return (until(first, WAIT_S, lambda: f"the partitions to be taken over; {scene.story()}") or began) - began


FAILPOINTS = ["after-act", "before-settle", "after-settle", "before-commit", "after-commit", "mid-rebalance"]


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_kill_9_at(cluster: KafkaCluster, tmp_path: Path, row: Row, failpoint: str) -> None:
    allowed = Allowance.kill(WINDOW)
    with scene_of(cluster, tmp_path, f"kill-{failpoint}") as scene:
        with fed(scene):
            scene.start(ready=False)
            scene.start()
            until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
            scene.more(200)
            scene.set(failpoint, "kill")
            if failpoint == "mid-rebalance":
                scene.start(ready=False)
            _, living = fallen(scene)
            recovered = handed_over(scene, living, time.monotonic())
            scene.more(200)
        scene.stop_all_living()
    # How soon the other one goes on is in the table, and judged by `python -m bench takeover` on a quiet machine.
    row.kept(scene.verdict(allowed), allowed, recovered)


def test_kill_9_after_the_start_position_was_committed(cluster: KafkaCluster, tmp_path: Path, row: Row) -> None:
    with scene_of(cluster, tmp_path, "kill-start", source={"start": "latest"}) as scene:
        scene.set("after-start-position", "kill")
        first = scene.start(ready=False)
        until(lambda: not first.running, WAIT_S, "the instance to die with its start committed")
        # Produced while nobody is there: `latest` was decided before, so these belong to the pipeline.
        with fed(scene):
            scene.start()
            scene.more(200)
        scene.stop_all_living()
    row.kept(scene.verdict(), NOTHING)


def test_an_instance_frozen_beyond_its_session(
    cluster: KafkaCluster, tmp_path: Path, row: Row, frozen: dict[str, str]
) -> None:
    allowed = Allowance.lost_session(WINDOW)
    with scene_of(cluster, tmp_path, "frozen-long", work_s=0.002, env=frozen) as scene:
        with fed(scene):
            first = scene.start(ready=False)
            scene.start()
            until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
            scene.more(200)
            first.pause()
            until(lambda: scene.owners() == [4], WAIT_S, scene.story)
            scene.more(400)
            first.unpause()
            until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
            scene.more(400)
        scene.stop_all()
    # Away with the session and back: only the act that was frozen may end late.
    row.kept(scene.verdict(allowed, turns=3, late=1), allowed)


def test_an_instance_frozen_while_idle_beyond_its_session(
    cluster: KafkaCluster, tmp_path: Path, row: Row, frozen: dict[str, str]
) -> None:
    """Nothing to commit, so no refused commit tells it: it must ask before it plans."""
    with scene_of(cluster, tmp_path, "frozen-idle", env=frozen) as scene:
        first = scene.start(ready=False)
        scene.start()
        for _ in range(4):
            until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
            scene.feed.send(200)
            scene.caught_up()
            first.pause()
            until(lambda: scene.owners() == [4], WAIT_S, scene.story)
            scene.feed.send(200)
            scene.caught_up()
            first.unpause()
        until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
        scene.feed.send(200)
        scene.caught_up()
        scene.stop_all()
    row.kept(scene.verdict(), NOTHING)


def test_an_instance_frozen_within_its_session(
    cluster: KafkaCluster, tmp_path: Path, row: Row, frozen: dict[str, str]
) -> None:
    with scene_of(cluster, tmp_path, "frozen-short", env=frozen) as scene:
        with fed(scene):
            instance = scene.start()
            for _ in range(3):
                scene.more(100)
                instance.pause()
                time.sleep(SESSION_S / 2)  # the fault itself
                instance.unpause()
            scene.more(100)
        scene.stop_all()
    row.kept(scene.verdict(), NOTHING)


def test_the_driver_alone_is_frozen_and_its_workers_go_on(
    cluster: KafkaCluster, tmp_path: Path, row: Row, frozen: dict[str, str]
) -> None:
    """A worker cannot know that its driver has lost the session; it ends with its window."""
    allowed = Allowance.lost_session(WINDOW)
    with scene_of(cluster, tmp_path, "frozen-driver", work_s=0.002, env=frozen) as scene:
        with fed(scene):
            first = scene.start(ready=False)
            scene.start()
            until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
            scene.more(200)
            first.signal(signal.SIGSTOP)
            until(lambda: scene.owners() == [4], WAIT_S, scene.story)
            scene.more(400)
            first.signal(signal.SIGCONT)
            until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
            scene.more(400)
        scene.stop_all()
    row.kept(scene.verdict(allowed, turns=3, late=1), allowed)


def test_a_stop_while_every_broker_is_away_ends_in_time(cluster: KafkaCluster, tmp_path: Path, row: Row) -> None:
    allowed = Allowance.lost_session(WINDOW)
    with scene_of(cluster, tmp_path, "stop-alone", env={"PENSTOCK_ENGINE_STOP_TIMEOUT": "15s"}) as scene:
        with fed(scene):
            instance = scene.start()
            scene.more(200)
            for broker in cluster.brokers:
                broker.pause()
            began = time.monotonic()
            instance.terminate()
            code = instance.wait(60)
            took = time.monotonic() - began
            for broker in cluster.brokers:
                broker.unpause()
            scene.start()
            scene.more(200)
        scene.stop_all_living()
    row.kept(scene.verdict(allowed), allowed, took)
    assert code in (0, 1)
