"""I1: an offset is committed only when every event below it is done, filtered, or a durable dead letter."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.checker import Allowance
from tests.faults.scene import EFFECTS, WAIT_S, WINDOW, Scene, fed
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until


def value(seq: int) -> bytes:
    """One in twenty fails, one in thirty is dropped by the filter."""
    wanted = "raise" if seq % 20 == 7 else "drop" if seq % 30 == 11 else None
    return json.dumps({"seq": seq, "do": wanted}).encode()


def test_i01_an_instance_killed_between_acting_and_settling_has_committed_nothing_of_it(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    filters = [{"type": f"{EFFECTS}:Choosy"}]
    with Scene(kafka, tmp_path, "i01", values=value, filters=filters) as scene:
        with fed(scene):
            first = scene.start()
            scene.more(200)
            scene.set("after-act", "kill")
            until(lambda: not first.running, WAIT_S, "the instance to die with its outcome in hand")
            scene.start()
            scene.more(200)
        scene.stop_all_living()
    report = scene.verdict(
        Allowance.kill(WINDOW), filtered=lambda record: record.seq % 30 == 11 and record.seq % 20 != 7
    )
    assert report.dead_letters == sum(record.seq % 20 == 7 for record in scene.feed.produced)
