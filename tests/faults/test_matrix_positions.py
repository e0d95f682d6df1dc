"""Where pipelines begin and go on in situations that take time: several first starts at once, outages of stateless
pipelines, a change of the file while the store does not answer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.outcome import Row
from tests.faults.scene import WAIT_S, Scene, plain
from tests.support.engine import Engine
from tests.support.freezing import frozen
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def patient() -> Iterator[KafkaBroker]:
    """As brokers are by default: the members of a first generation are waited for."""
    with KafkaBroker(properties={"group.initial.rebalance.delay.ms": "3000"}) as own:
        yield own


@pytest.mark.parametrize("start", ["latest", "stamp"])
def test_two_instances_start_for_the_first_time_at_once(
    patient: KafkaBroker, tmp_path: Path, row: Row, start: str
) -> None:
    """F5: the one that looks second sees commits of the first; its own partitions begin where the policy says, too."""
    # A time in the future begins at the end, as the policy for times says.
    source = {"start": "latest" if start == "latest" else "2100-01-01T00:00:00Z"}
    with Scene(patient, tmp_path, f"first-{start}", source=source) as scene:
        scene.feed.send(1_000)
        old = len(scene.feed.produced)
        scene.start(ready=False)
        scene.start(ready=False)
        until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
        for process in scene.instances:
            process.wait_ready(WAIT_S)
        until(lambda: len(patient.offsets(scene.name)) == 4, WAIT_S, lambda: f"four starts; {scene.story()}")
        scene.feed.send(100)
        scene.caught_up()
        scene.stop_all()
    acted = sorted(effect.seq for effect in scene.effects())
    assert acted == list(range(old, old + 100)), f"{len(acted)} events were acted on, {acted[:3]} first"
    row.verdict, row.produced = "kept", old + 100


def test_a_stateless_pipeline_goes_on_where_it_was_after_an_outage(tmp_path: Path, row: Row) -> None:
    """F6: the broker does not answer for longer than its clients wait; nothing old is acted on when it does."""
    with (
        KafkaBroker() as broker,
        Engine(tmp_path / "engine") as engine,
        Scene(broker, tmp_path, "stateless", source={"stateless": True, "start": "latest"}) as scene,
    ):
        scene.feed.send(1_000)
        flow = scene.run_in(engine)
        scene.feed.send(20)
        until(lambda: scene.count() == 20, WAIT_S, lambda: f"{scene.count()} {flow.state} {flow.reason}")
        with frozen(broker.pid):
            until(lambda: flow.state == "waiting", WAIT_S, lambda: f"{flow.state} {flow.reason}")
        until(lambda: flow.state != "waiting", WAIT_S, lambda: f"{flow.state} {flow.reason}")
        scene.feed.send(20)
        until(lambda: scene.count() >= 40, WAIT_S, lambda: f"{scene.count()} {flow.state} {flow.reason}")
        engine.stop(flow)
        assert sorted(effect.seq for effect in scene.effects()) == list(range(1_000, 1_040))
    row.verdict, row.produced = "kept", 1_040


def test_a_change_of_the_file_while_the_store_is_locked(kafka: KafkaBroker, tmp_path: Path, row: Row) -> None:
    """F10: the old runner cannot settle its failure and ends later than a stop may take; the new one, which has its
    name, goes on."""

    def value(seq: int) -> bytes:
        return json.dumps({"seq": seq, "do": "raise" if seq == 25 else None}).encode()

    env = {"PENSTOCK_ENGINE_STOP_TIMEOUT": "2s"}
    with Scene(kafka, tmp_path, "reloaded", partitions=1, values=value, env=env) as scene:
        scene.file = tmp_path / "pipeline.yaml"
        scene.file.write_text(json.dumps(scene.document))
        instance = scene.start()
        scene.feed.send(20)
        scene.caught_up()
        store = sqlite3.connect(tmp_path / "home" / "penstock.db", isolation_level=None, timeout=30)
        store.execute("BEGIN IMMEDIATE")
        scene.feed.send(10)
        until(lambda: scene.count() == 29, WAIT_S, scene.story)
        changed = scene.document | {"options": scene.document["options"] | {"timeout": "20s"}}
        fresh = tmp_path / "fresh.yaml"
        fresh.write_text(json.dumps(changed))
        fresh.rename(scene.file)
        instance.wait_log("pipeline has changed and was restarted", WAIT_S)
        store.execute("ROLLBACK")
        store.close()
        scene.feed.send(20)
        scene.caught_up()
        # The end of the old runner is seen in the log or was before; events that come after it are acted on as well.
        scene.feed.send(20)
        scene.caught_up()
        scene.stop_all()
    # What the old runner had not settled when it was given up is repeated by the new one.
    done = {effect.seq for effect in scene.effects()}
    assert done == set(range(70)) - {25}
    assert [letter.offset for letter in scene.letters()] == [25]
    row.verdict, row.produced = "kept", 70


def test_a_thousand_first_events_are_acted_on_by_one_of_two_instances(
    patient: KafkaBroker, tmp_path: Path, row: Row
) -> None:
    """The counterpart of F5: with `earliest` nothing is passed over, whoever looks second."""
    with Scene(patient, tmp_path, "first-earliest", values=plain) as scene:
        scene.feed.send(1_000)
        scene.start(ready=False)
        scene.start(ready=False)
        scene.caught_up()
        until(lambda: scene.owners() == [2, 2], WAIT_S, scene.story)
        scene.feed.send(100)
        scene.caught_up()
        scene.stop_all()
    report = scene.verdict(turns=1)
    row.verdict, row.produced = "kept", report.produced
