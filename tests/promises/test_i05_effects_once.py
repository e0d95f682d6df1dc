"""I5: into SQL targets every event takes effect exactly once, whatever crashes or is delivered again.

So it is with the store: an event that is delivered and fails again, by a crash or a reset, remains one dead letter, and
every failure is a step of its history.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.scene import WAIT_S, Scene, fed
from tests.faults.table_scene import TableScene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.waiting import until


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


def test_i05_a_table_equals_its_topic_through_kills_behind_the_transaction(
    kafka: KafkaBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    with TableScene(kafka, tmp_path, "i05-table", postgres.create_database()) as scene:
        with fed(scene):
            first = scene.start()
            scene.more(50)
            scene.kill_worker("after-transaction-commit")
            scene.more(50)
            scene.set("before-commit", "kill")
            until(lambda: not first.running, WAIT_S, "the instance to die before its commit")
            scene.start()
            scene.more(50)
        scene.stop_all_living()
        scene.assert_equal()
