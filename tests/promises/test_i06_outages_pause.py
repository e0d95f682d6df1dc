"""I6: an outage of broker, registry, store or target pauses; it never loses and never dead-letters."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pytest

from penstock.engine.pipelines.runner import PipelineRunner
from tests.faults.checker import Allowance
from tests.faults.scene import WAIT_S, WINDOW, Scene, fed
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.registry import RegistryServer
from tests.support.waiting import until

pytestmark = pytest.mark.kafka
SCHEMA = {"type": "record", "name": "Numbered", "fields": [{"name": "seq", "type": "long"}]}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """Nobody else's: it is killed."""
    with KafkaBroker() as own:
        yield own


def waiting(flow: PipelineRunner, why: str) -> None:
    until(
        lambda: flow.state == "waiting" and why in (flow.reason or ""),
        WAIT_S,
        lambda: f"{why!r} as the reason to wait: {flow.state} {flow.reason}",
    )


def test_i06_the_broker_is_killed_and_comes_back(engine: Engine, broker: KafkaBroker, tmp_path: Path) -> None:
    with Scene(broker, tmp_path, "i06-broker", partitions=2) as scene:
        with fed(scene):
            flow = scene.run_in(engine)
            scene.more(100)
            broker.kill()
            waiting(flow, "")
            broker.start()
            scene.more(100)
        engine.stop(flow)
    # Work that was done when the broker died could not be committed any more.
    assert scene.verdict(Allowance.kill(WINDOW)).dead_letters == 0


def test_i06_the_broker_comes_back_and_a_pipeline_without_events_waits_no_longer(
    engine: Engine, broker: KafkaBroker, tmp_path: Path
) -> None:
    with Scene(broker, tmp_path, "i06-quiet", partitions=2) as scene:
        broker.kill()
        flow = engine.run(scene.document, assigned=False)
        waiting(flow, "")
        broker.start()
        until(lambda: flow.state == "idle" and not flow.reason, WAIT_S, lambda: f"{flow.state} {flow.reason}")
        engine.stop(flow)


def test_i06_the_target_is_away(engine: Engine, broker: KafkaBroker, tmp_path: Path) -> None:
    with Scene(broker, tmp_path, "i06-target", partitions=2) as scene:
        with fed(scene):
            flow = scene.run_in(engine)
            scene.more(50)
            (tmp_path / "away").touch()
            waiting(flow, "the target is away")
            (tmp_path / "away").unlink()
            scene.more(50)
        engine.stop(flow)
    assert scene.verdict().dead_letters == 0


def test_i06_an_outage_of_one_event_of_a_batch_repeats_none_of_the_others(
    engine: Engine, broker: KafkaBroker, tmp_path: Path
) -> None:
    """F13: the target of some events is away; those behind them in the batch have taken effect, once."""

    def value(seq: int) -> bytes:
        return json.dumps({"seq": seq, "do": "away" if seq in (4, 9) else None}).encode()

    options = {"ordering": "none"}
    with Scene(broker, tmp_path, "i06-partial", partitions=1, values=value, way="batch", options=options) as scene:
        (tmp_path / "partly-away").touch()
        scene.feed.send(30)
        flow = scene.run_in(engine)
        waiting(flow, "the target of this event is away")
        until(lambda: scene.count() == 28, WAIT_S, lambda: f"{scene.count()} {flow.state} {flow.reason}")
        # One attempt more: it concerns those two alone.
        (tmp_path / "partly-away").unlink()
        scene.caught_up()
        engine.stop(flow)
    assert scene.verdict(ordering="none").dead_letters == 0


def test_i06_the_store_is_away_and_failures_wait_for_it(
    engine: Engine, broker: KafkaBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    def value(seq: int) -> bytes:
        return json.dumps({"seq": seq, "do": "raise" if seq % 10 == 3 else None}).encode()

    with Scene(broker, tmp_path, "i06-store", partitions=2, values=value) as scene:
        with fed(scene):
            flow = scene.run_in(engine)
            scene.more(50)
            postgres.stop()
            waiting(flow, "dead letters cannot be stored")
            postgres.start()
            scene.more(50)
        engine.stop(flow)
    report = scene.verdict()
    assert report.dead_letters == sum(record.seq % 10 == 3 for record in scene.feed.produced)


def test_i06_the_registry_answers_with_errors(
    engine: Engine, broker: KafkaBroker, registry: RegistryServer, tmp_path: Path
) -> None:
    number = registry.register("numbered-value", json.dumps(SCHEMA))
    parsed = fastavro.parse_schema(SCHEMA)

    def value(seq: int) -> bytes:
        out = io.BytesIO(struct.pack(">bI", 0, number))
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, parsed, {"seq": seq})
        return out.getvalue()

    connection = {"bootstrap": broker.bootstrap, "schema_registry_url": registry.url}
    source = {"format": "avro", "connection": connection}
    with Scene(broker, tmp_path, "i06-registry", partitions=2, values=value, source=source) as scene:
        registry.faults.status = 503
        with fed(scene):
            flow = scene.run_in(engine)
            waiting(flow, "503")
            registry.faults.status = None
            scene.more(100)
        engine.stop(flow)
    assert scene.verdict().dead_letters == 0
