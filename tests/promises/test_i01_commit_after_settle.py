"""I1: an offset is committed only when every event below it is done, filtered, or a durable dead letter."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.checker import Allowance
from tests.faults.scene import EFFECTS, WAIT_S, WINDOW, Scene
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

SENT = 120
"""Events that are in the topic before the instance starts, so that its first outcome has acts and failures; less than a
window."""
HELD = ("after-act", "before-settle")


def value(seq: int) -> bytes:
    """One in twenty fails, one in thirty is dropped by the filter."""
    wanted = "raise" if seq % 20 == 7 else "drop" if seq % 30 == 11 else None
    return json.dumps({"seq": seq, "do": wanted}).encode()


def committed(scene: Scene) -> int:
    """The start is committed by itself; it is 0."""
    return scene.kafka.offsets(scene.name).get((scene.topic, 0), 0)


def test_i01_nothing_is_committed_before_it_is_settled_and_a_kill_in_between_loses_nothing(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """The instance is held with an outcome in hand, first behind the acts, then right before their dead letters are
    written. An engine that commits before it settles has committed by then, and its dead letters die with it."""
    filters = [{"type": f"{EFFECTS}:Choosy"}]
    with Scene(kafka, tmp_path, "i01", partitions=1, values=value, filters=filters) as scene:
        scene.feed.send(SENT)
        for failpoint in HELD:
            scene.set(failpoint, "wait")
        first = scene.start(ready=False)
        for failpoint in HELD:
            scene.held(failpoint)
            assert scene.count(), "nothing was acted on: to be held there proves nothing"
            assert committed(scene) == 0, f"an offset was committed when held at {failpoint}"
            assert scene.letters() == [], f"dead letters are there when held at {failpoint}"
            if failpoint != HELD[-1]:
                scene.clear(failpoint)
        first.kill()
        assert committed(scene) == 0
        scene.clear(HELD[-1])
        scene.start()
        scene.feed.send(SENT)
        until(lambda: scene.lag() == 0, WAIT_S, scene.story)
        scene.stop_all_living()
    report = scene.verdict(
        Allowance.kill(WINDOW), filtered=lambda record: record.seq % 30 == 11 and record.seq % 20 != 7
    )
    assert report.dead_letters == sum(record.seq % 20 == 7 for record in scene.feed.produced)
    assert report.repeats, "the kill repeated nothing: it did not hit between act and commit"
