"""I4: events of one partition (or key) are acted on in order, also through retries, rebalances and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checker import NOTHING, Allowance
from tests.faults.scene import WAIT_S, WINDOW, Scene, fed
from tests.support.engine import Engine
from tests.support.group import other_member
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until


def value(seq: int) -> bytes:
    """One in fifty succeeds at its third attempt only."""
    return json.dumps({"seq": seq, "fails": 2 if seq % 50 == 3 else 0}).encode()


RETRY = {"retry": {"attempts": 5, "backoff": "100ms", "jitter": 0.5}}


@pytest.mark.parametrize(
    ("ordering", "options"),
    [("partition", RETRY), ("key", RETRY | {"ordering": "key", "concurrency": 8})],
    ids=["partition", "key"],
)
def test_i04_retries_rebalances_and_a_restart_keep_the_order(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path, ordering: Any, options: dict[str, Any]
) -> None:
    with Scene(kafka, tmp_path, f"i04-{ordering}", partitions=2, values=value, options=options, rate=100) as scene:
        with fed(scene):
            flow = scene.run_in(engine)
            for _ in range(2):
                scene.more(50)
                with other_member(kafka, scene.name, scene.topic, owns=1):
                    scene.more(20)
            scene.more(50)
            engine.stop(flow)
            flow = scene.run_in(engine)
            scene.more(50)
        engine.stop(flow)
    report = scene.verdict(ordering=ordering)
    assert report.dead_letters == 0


HELD = 40
"""The event whose act lasts until the test ends it."""


def held_once(seq: int) -> bytes:
    return json.dumps({"seq": seq, "do": "hold" if seq == HELD else None}).encode()


@pytest.mark.parametrize("ends", ["within", "beyond"])
def test_i04_two_acting_owners_never_act_side_by_side(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path, ends: str
) -> None:
    """A second instance joins while the first one is in the middle of an act, which ends within `drain_timeout`, or is
    cancelled with its worker: no act of the former owner begins after the first one of the new owner."""
    options = {"drain_timeout": "60s" if ends == "within" else "2s"}
    with Scene(kafka, tmp_path, f"i04-{ends}", partitions=2, values=held_once, options=options, rate=60) as scene:
        hold = tmp_path / "hold"
        hold.touch()
        with fed(scene):
            flow = scene.run_in(engine)
            until((tmp_path / "held").exists, WAIT_S, lambda: f"the long act to begin; {scene.story()}")
            second = scene.start(ready=False)
            until(lambda: len(kafka.members(scene.name)) == 2, WAIT_S, scene.story)
            if ends == "beyond":
                until(lambda: scene.owners() == [1, 1], WAIT_S, scene.story)
            hold.unlink()
            until(lambda: scene.owners() == [1, 1], WAIT_S, scene.story)
            until(lambda: any(e.instance == "instance-1" for e in scene.effects()), WAIT_S, scene.story)
            scene.more(60)
            assert second.stop() == 0
            scene.more(60)
        engine.stop(flow)
    # The cancelled worker takes what it had not returned with it.
    allowed = NOTHING if ends == "within" else Allowance.kill(WINDOW)
    report = scene.verdict(allowed, turns=2)
    assert report.dead_letters == 0
    assert {effect.instance for effect in scene.effects()} == {"", "instance-1"}, "only one of them has acted"
