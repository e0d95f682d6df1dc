"""I10 and I1 for workers: `kill -9` of the processes that act repeats at most one window per partition, and loses
neither an event nor a failure, whatever the way of acting."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from tests.faults.checker import Allowance, Fault
from tests.faults.scene import WINDOW, Scene
from tests.support.engine import Engine
from tests.support.instance import worker_processes
from tests.support.kafka import KafkaBroker

ONE_OF_EACH = ("plain", "batch", "keyed", "deferred")
KILLS = 2


def value(seq: int) -> bytes:
    """One in ten fails softly: what a worker knew of it dies with the worker."""
    return json.dumps({"seq": seq, "do": "raise" if seq % 10 == 7 else None}).encode()


def test_i10_killed_workers_lose_no_event_and_no_failure_and_repeat_at_most_a_window(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path
) -> None:
    scenes = [Scene(kafka, tmp_path / w, f"i10-{w}", partitions=2, values=value, way=w, rate=80) for w in ONE_OF_EACH]
    kills: list[float] = []
    with ExitStack() as stack:
        for scene in scenes:
            stack.enter_context(scene)
        flows = [scene.run_in(engine) for scene in scenes]
        with ExitStack() as feeding:
            for scene in scenes:
                feeding.enter_context(scene.feed)
            everywhere(scenes, 30)
            for _ in range(KILLS):
                kills.append(time.monotonic())
                killed = worker_processes(os.getpid())
                assert killed, "no process that acts was found"
                for worker in killed:
                    worker.kill()
                everywhere(scenes, 30)
        for scene in scenes:
            scene.caught_up()
        for flow in flows:
            engine.stop(flow)
    # The consequences of a kill end where the next one begins.
    spans = list(pairwise([*kills, time.monotonic()]))
    for scene in scenes:
        # What a deferring action has deferred in the isolation lane comes again when its partition leaves that lane.
        allowed = Allowance(repeats=WINDOW, rewinds=2 if scene.name == "i10-deferred" else 1)
        report = scene.verdict(faults=[Fault(f"kill at {began:.1f}", began, end, allowed) for began, end in spans])
        failing = sum(record.seq % 10 == 7 for record in scene.feed.produced)
        assert (report.dead_letters, {letter.stage for letter in scene.letters()}) == (failing, {"act"}), scene.name


def everywhere(scenes: list[Scene], count: int) -> None:
    """Wait for so many further effects of each."""
    before = [scene.count() for scene in scenes]
    for scene, seen in zip(scenes, before, strict=True):
        scene.more(max(0, seen + count - scene.count()))
