"""I5: into SQL targets every event takes effect exactly once, whatever crashes or is delivered again.

Tables and work orders come with their own actions. What writes to SQL today is the store: an event that is delivered
and fails again, by a crash or a reset, remains one dead letter, and every failure is a step of its history.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.scene import Scene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker


def value(seq: int) -> bytes:
    return json.dumps({"seq": seq, "do": "raise" if seq % 5 == 2 else None}).encode()


def test_i05_events_that_are_delivered_again_are_one_dead_letter_each(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path
) -> None:
    with Scene(kafka, tmp_path, "i05", partitions=2, values=value) as scene:
        scene.feed.send(100)
        flow = scene.run_in(engine)
        scene.caught_up()
        engine.stop(flow)
        first = {(row.partition, row.offset): row for row in scene.letters()}
        assert len(first) == 20
        kafka.set_offsets(scene.name, {(scene.topic, 0): 0, (scene.topic, 1): 0})
        flow = scene.run_in(engine)
        scene.caught_up()
        engine.stop(flow)
        again = {(row.partition, row.offset): row for row in scene.letters()}
        assert {at: row.id for at, row in again.items()} == {at: row.id for at, row in first.items()}
        for row in again.values():
            stored = engine.store.dead_letters.get(row.id)
            assert stored is not None
            assert [step.kind for step in stored.history] == ["failed", "failed"]
            assert row.first_failed_at < row.last_failed_at
