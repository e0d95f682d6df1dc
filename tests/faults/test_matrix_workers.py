"""Processes that act are killed under load, in every way of acting and with more pipelines in a lane than fit on a
screen."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.checker import Allowance, At, Effect, Fault, History, check
from tests.faults.outcome import Row
from tests.faults.scene import EFFECTS, WAIT_S, WAYS, WINDOW, Scene, fed
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker, KafkaCluster
from tests.support.waiting import until

pytestmark = pytest.mark.faults

PIPELINES = 70


def value(seq: int) -> bytes:
    """One in ten fails softly."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 10 == 7 else None}).encode()


def kill_workers(instance: PenstockProcess) -> None:
    killed = instance.workers()
    assert killed, "no process that acts was found"
    for worker in killed:
        worker.kill()


@pytest.mark.parametrize("way", WAYS)
def test_worker_processes_are_killed_again_and_again(cluster: KafkaCluster, tmp_path: Path, row: Row, way: str) -> None:
    # The suspects of a deferring action run in the isolation lane: what its object there has deferred is open when its
    # partition goes back to the pinned lane, and comes again.
    each = Allowance(repeats=WINDOW, rewinds=2 if way == "deferred" else 1)
    faults: list[Fault] = []
    with Scene(cluster, tmp_path, f"workers-{way}", replication=3, values=value, way=way, work_s=0.001) as scene:
        with fed(scene):
            instance = scene.start()
            scene.more(200)
            for number in range(5):
                began = time.monotonic()
                kill_workers(instance)
                scene.more(300)
                faults.append(Fault(f"kill {number}", began, time.monotonic(), each))
        scene.stop_all()
    report = scene.verdict(faults=faults)
    row.kept(report, each)
    assert {letter.stage for letter in scene.letters()} == {"act"}, "an innocent event was blamed"
    assert report.dead_letters == sum(record.seq % 10 == 7 for record in scene.feed.produced)


class Crowd(Scene):
    """The scene's pipeline and so many others on the same topic, each with a log of its own, in one lane."""

    def __init__(self, kafka: KafkaBroker, folder: Path) -> None:
        super().__init__(kafka, folder, "crowd", partitions=2, values=value, rate=10)
        self.names = [f"crowd-{number}" for number in range(PIPELINES)]
        self.pipelines = folder / "pipelines"
        self.pipelines.mkdir()
        for name in self.names:
            config = {"callable": f"{EFFECTS}:act", "config": {"log": str(self.log_of(name))}}
            document = self.document | {"name": name, "action": {"type": "python", "config": config}}
            (self.pipelines / f"{name}.yaml").write_text(json.dumps(document))
        self.file = self.pipelines

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def effects_of(self, name: str) -> list[Effect]:
        self.log = self.log_of(name)
        return self.effects()

    def acted(self) -> Counter[str]:
        logs = {name: self.log_of(name) for name in self.names}
        return Counter({name: log.read_bytes().count(b"\n") for name, log in logs.items() if log.exists()})

    def everywhere(self, count: int) -> None:
        """Wait for so many further effects of each pipeline."""
        before = self.acted()
        until(
            lambda: all(self.acted()[n] >= before[n] + count for n in self.names), WAIT_S, lambda: self._missing(before)
        )

    def _missing(self, before: Counter[str]) -> str:
        still = [name for name in self.names if self.acted()[name] == before[name]]
        return f"{len(still)} pipelines stand still: {still[:5]}; {self.instances[-1].log[-3000:]}"

    def history_of(self, name: str) -> History:
        self.name = name
        letters = {At(letter.topic, letter.partition, letter.offset) for letter in self.letters()}
        return History(self.feed.produced, self.effects_of(name), dead_letters=letters)


def test_seventy_pipelines_share_a_lane_whose_process_is_killed(kafka: KafkaBroker, tmp_path: Path, row: Row) -> None:
    """F2: what one pipeline in seventy knows of its failures may not depend on its place in the lane."""
    each, faults = Allowance.kill(WINDOW), []
    with Crowd(kafka, tmp_path) as scene:
        with scene.feed:
            instance = scene.start()
            scene.everywhere(5)
            for number in range(4):
                began = time.monotonic()
                kill_workers(instance)
                scene.everywhere(10)
                faults.append(Fault(f"kill {number}", began, time.monotonic(), each))
        for name in scene.names:
            until(lambda name=name: kafka.lag(name, scene.topic) == 0, WAIT_S, scene.story)
        scene.stop_all()
        failing = {record.at for record in scene.feed.produced if record.seq % 10 == 7}
        for name in scene.names:
            history = scene.history_of(name)
            report = check(history, faults=faults, complete=False)
            assert report.clean, f"{name}: {report}"
            assert history.dead_letters == failing, name
    row.kept(report, each)
