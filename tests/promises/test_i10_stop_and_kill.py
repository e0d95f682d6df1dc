"""I10: a graceful stop repeats nothing; kill -9 repeats at most one window per partition."""

from __future__ import annotations

from pathlib import Path

from tests.faults.checker import Allowance, check
from tests.faults.scene import WAIT_S, WINDOW, Scene, fed
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until


def test_i10_a_stop_repeats_nothing_and_a_kill_at_most_a_window(kafka: KafkaBroker, tmp_path: Path) -> None:
    with Scene(kafka, tmp_path, "i10", work_s=0.001) as scene:
        with fed(scene):
            first = scene.start()
            scene.more(200)
            assert first.stop() == 0
            second = scene.start()
            scene.more(200)
            assert check(scene.history(), complete=False).repeats == 0, "the stop repeated events"
            scene.set("before-commit", "kill")
            until(lambda: not second.running, WAIT_S, "the instance to die before its commit")
            scene.start()
            scene.more(200)
        scene.stop_all_living()
    report = scene.verdict(Allowance.kill(WINDOW))
    assert report.repeats, "the kill hit nothing: the failpoint is not between act and commit"
