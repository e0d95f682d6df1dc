"""I2: committed offsets never move backwards except by an explicit reset."""

from __future__ import annotations

from pathlib import Path

from tests.faults.checker import check
from tests.faults.scene import WAIT_S, Scene
from tests.support.group import other_member
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until


def test_i02_an_instance_that_slept_beyond_its_session_does_not_undo_what_others_committed(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    with Scene(kafka, tmp_path, "i02", partitions=2, rate=400) as scene:
        instance = scene.start()
        with scene.feed:
            scene.more(200)
            instance.pause()
            with other_member(kafka, scene.name, scene.topic, owns=2) as other:
                ends = kafka.end_offsets(scene.topic)
                assert sum(ends.values()) > scene.count() + 200, "the sleeper has missed nothing"
                # The other one works off everything that is there; the sleeper's outcome of long ago comes after it.
                other.commit({(scene.topic, p): end for p, end in ends.items()})
                instance.unpause()
                until(lambda: scene.owners() == [1, 1], WAIT_S, scene.story)
            until(lambda: scene.owners() == [2], WAIT_S, scene.story)
            scene.more(200)
        scene.caught_up()
        scene.stop_all()
    breaches = check(scene.history(), complete=False).breaches
    assert [breach for breach in breaches if breach.kind in ("backwards", "phantom", "changed")] == []
