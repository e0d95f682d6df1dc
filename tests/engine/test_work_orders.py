"""I5: a message becomes a work order once: whatever dies, is reset, refused or away."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engine.pipelines.runner import PipelineRunner
from penstock.engine.replay.dead_letters import LetterWork
from penstock.engine.replay.replay import Replay
from penstock.workflows.recovery import read
from tests.faults.order_scene import OrderScene
from tests.faults.scene import WAIT_S, fed, plain
from tests.support.desk import Desk
from tests.support.engine import Engine, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

Topics = Callable[..., str]


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    made = Desk(url)
    yield made
    made.close()


class Trigger:
    """The pipeline of a desk's trigger in the instance of the test's process."""

    def __init__(self, engine: Engine, kafka: KafkaBroker, desk: Desk, topic: str) -> None:
        self.engine, self.kafka, self.desk, self.topic = engine, kafka, desk, topic
        self.name = f"trigger-{desk.trigger}"

    def run(self, **config: object) -> PipelineRunner:
        return self.engine.run(self.document(**config))

    def document(self, **config: object) -> dict[str, object]:
        action = self.desk.action(**config)
        source = {"format": "raw", "start": "earliest"}
        return pipeline(self.name, self.kafka.bootstrap, [self.topic], action=action, source=source)

    def caught_up(self, flow: PipelineRunner) -> None:
        until(
            lambda: self.kafka.lag(self.name, self.topic) == 0,
            60,
            lambda: f"all is committed: {flow.state} {flow.reason}",
        )


def test_messages_are_work_orders_poison_is_a_letter_with_its_bytes_and_a_replay_takes_it_in_once(
    engine: Engine, kafka: KafkaBroker, topic: Topics, desk: Desk
) -> None:
    trigger = Trigger(engine, kafka, desk, topic(partitions=1))
    poison = [b"[1]", b"not JSON", b'{"a": "\xff"}', None, b""]
    kafka.produce(trigger.topic, [Sent(b'{"n": 1}', b"key"), *map(Sent, poison), Sent(b'{"n": 2}')])
    flow = trigger.run()
    trigger.caught_up(flow)
    engine.stop(flow)
    assert desk.offsets() == [0, 6]
    letters = {each.offset: each for each in engine.dead_letters(trigger.name)}
    assert sorted(letters) == [1, 2, 3, 4, 5]
    for offset, each in letters.items():
        stored = engine.store.dead_letters.get(each.id)
        assert stored is not None
        assert stored.letter.value == poison[offset - 1]
        assert (each.stage, each.error_code) == ("write", "invalid_data")

    spec = engine.spec(trigger.document(accept="any"))
    for _ in range(2):
        work = LetterWork(
            engine.store.dead_letters,
            [each.id for each in letters.values()],
            spec,
            by="test",
            max_replays=9,
            lanes=1,
            stop=threading.Event(),
            say=lambda _: None,
        )
        with work:
            Replay(engine.instance.spark, spec, work).run(threading.Event())
        assert work.marks.replayed == 5
    assert desk.offsets() == list(range(7))
    assert desk.count("work_orders") == desk.count("runs") == 7


def test_a_group_that_is_deleted_or_reset_takes_nothing_in_twice(
    engine: Engine, kafka: KafkaBroker, topic: Topics, desk: Desk
) -> None:
    trigger = Trigger(engine, kafka, desk, topic(partitions=2))
    kafka.produce(trigger.topic, [b"{}"] * 100)
    flow = trigger.run()
    trigger.caught_up(flow)
    engine.stop(flow)
    # As a broker does that forgets the offsets of a group: also what the store remembers of them is gone.
    kafka.delete_group(trigger.name)
    with engine.store.database.write() as connection:
        connection.exec_driver_sql("DELETE FROM penstock_mirrored_offsets")
    kafka.produce(trigger.topic, [b"{}"] * 20)
    flow = trigger.run()
    trigger.caught_up(flow)
    engine.stop(flow)
    assert desk.count("work_orders") == 120

    kafka.set_offsets(trigger.name, {(trigger.topic, 0): 0, (trigger.topic, 1): 0})
    kafka.produce(trigger.topic, [b"{}"] * 20)
    flow = trigger.run()
    trigger.caught_up(flow)
    engine.stop(flow)
    assert desk.count("work_orders") == desk.count("runs") == desk.count("dataclips") == 140


def test_soft_limits_reject_and_hard_limits_wait_until_they_allow(
    engine: Engine, kafka: KafkaBroker, topic: Topics, desk: Desk
) -> None:
    desk.execute("UPDATE penstock_projects SET soft_limit = 30, hard_limit = 50, limit_period = 'total'")
    trigger = Trigger(engine, kafka, desk, topic(partitions=2))
    kafka.produce(trigger.topic, [b"{}"] * 80)
    flow = trigger.run(batch=7)
    until(lambda: "hard limit" in (flow.reason or ""), 60, lambda: f"it waits: {flow.state} {flow.reason}")
    assert flow.state == "waiting"
    assert desk.states() == {"pending": 30, "rejected": 20}
    assert kafka.lag(trigger.name, trigger.topic) >= 30
    desk.execute("UPDATE penstock_projects SET hard_limit = NULL, soft_limit = 70")
    trigger.caught_up(flow)
    engine.stop(flow)
    assert desk.states() == {"pending": 50, "rejected": 30}
    assert desk.count("runs") == 50


def test_a_pipeline_that_stops_at_failures_writes_nothing_behind_the_first(
    engine: Engine, kafka: KafkaBroker, topic: Topics, desk: Desk
) -> None:
    trigger = Trigger(engine, kafka, desk, topic(partitions=1))
    kafka.produce(trigger.topic, [b"[1]" if n == 12 else b"{}" for n in range(60)])
    flow = engine.run(trigger.document(batch=7) | {"options": {"failure_mode": "THROW"}})
    until(lambda: flow.state == "failed", 60, lambda: f"it fails: {flow.state} {flow.reason}")
    assert desk.offsets() == list(range(12))
    assert desk.query("SELECT next_offset FROM penstock_cursors") == [(12,)]


def test_a_full_backlog_waits_until_runs_have_ended(
    engine: Engine, kafka: KafkaBroker, topic: Topics, desk: Desk
) -> None:
    trigger = Trigger(engine, kafka, desk, topic(partitions=1))
    kafka.produce(trigger.topic, [b"{}"] * 50)
    flow = trigger.run(backlog=20)
    until(lambda: "unfinished" in (flow.reason or ""), 60, lambda: f"it waits: {flow.state} {flow.reason}")
    assert desk.count("runs") == 20
    desk.execute("UPDATE penstock_runs SET state = 'success'")
    until(lambda: desk.count("runs") == 40, 60, lambda: f"it goes on: {flow.state} {flow.reason}")
    desk.execute("UPDATE penstock_runs SET state = 'success'")
    trigger.caught_up(flow)
    engine.stop(flow)
    assert desk.offsets() == list(range(50))


def test_i05_each_message_is_a_work_order_once_through_kills_around_the_transaction(
    kafka: KafkaBroker, url: str, tmp_path: Path
) -> None:
    with OrderScene(kafka, tmp_path / "scene", url) as scene:
        with fed(scene):
            first = scene.start()
            scene.more(50)
            scene.kill_worker("after-transaction-commit")
            scene.more(50)
            # The work orders are there, and the offset is not committed yet.
            scene.set("before-commit", "kill")
            until(lambda: not first.running, WAIT_S, "the instance to die before its commit")
            scene.start()
            scene.more(50)
        scene.stop_all_living()
        assert f"Kafka Pipeline Error: Type `invalid_data` Trigger_id `{scene.desk.trigger}` Topic" in first.log
        scene.assert_equal()


def test_i06_a_store_that_is_away_under_load_pauses_and_what_is_in_hand_is_copied(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    base = tmp_path / "copies"
    base.mkdir()
    with PostgresServer() as server:
        url = server.create_database()
        # No letters: a window that has some would wait for the store before the next one has messages in hand.
        with OrderScene(kafka, tmp_path / "scene", url, plain, alternate_storage=str(base)) as scene:
            with fed(scene):
                scene.start()
                scene.more(50)
                server.stop()
                until(lambda: list(base.rglob("*.json")), WAIT_S, lambda: f"copies; {scene.story()}")
                committed = kafka.offsets(scene.name)
                more = len(scene.feed.produced) + 500
                until(lambda: len(scene.feed.produced) > more, WAIT_S, "messages of some seconds")
                assert kafka.offsets(scene.name) == committed, "nothing is settled while the store is away"
                server.start()
                scene.more(50)
            scene.stop_all()
            copies = [read(path) for path in base.rglob("*.json")]
            assert {each.trigger for each in copies} == {scene.desk.trigger}
            produced = {(each.at.partition, each.at.offset): each.seq for each in scene.feed.produced}
            for each in copies:
                seq = produced[each.record.partition(), each.record.offset()]
                assert json.loads(each.record.value() or b"") == {"seq": seq}
            scene.assert_equal()
