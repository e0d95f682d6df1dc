"""Where pipelines begin and go on: start policies, new topics and partitions, lost and impossible offsets, special
topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.engine.pipelines.runner import PipelineRunner
from tests.support.engine import Engine, coordinates, lines, pipeline
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 60.0


def numbers(first: int, last: int) -> list[bytes]:
    return [json.dumps({"id": i}).encode() for i in range(first, last)]


def ids(path: Path) -> list[int]:
    return [line["event"]["id"] for line in lines(path)]


def to_file(path: Path) -> dict[str, Any]:
    return {"type": "file", "config": {"path": str(path)}}


def caught_up(kafka: KafkaBroker, flow: PipelineRunner, topic: str) -> None:
    until(
        lambda: kafka.lag(flow.spec.group, topic) == 0,
        WAIT_S,
        lambda: f"{flow.state} {flow.reason} {flow.stats.counts}",
    )


@pytest.mark.parametrize("start", ["latest", "time"])
def test_a_first_start_begins_where_the_policy_says_and_commits_it(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path, start: str
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    base = int(time.time() * 1000) - 60_000
    kafka.produce(name, [Sent(v, timestamp=base + i * 1000) for i, v in enumerate(numbers(0, 10))])
    chosen: Any = base + 6_500 if start == "time" else "latest"
    expected = 7 if start == "time" else 10
    flow = engine.run(
        pipeline(f"first-{start}", kafka.bootstrap, [name], source={"start": chosen}, action=to_file(out))
    )
    until(lambda: kafka.offsets(flow.spec.group).get((name, 0)) in (expected, 10), WAIT_S, "the start to be committed")
    kafka.produce(name, numbers(10, 12))
    caught_up(kafka, flow, name)
    engine.stop(flow)
    assert ids(out) == list(range(expected, 12))


def test_new_topics_of_a_pattern_are_read_from_their_beginning(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    first, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(first, numbers(0, 3))
    flow = engine.run(
        pipeline("pattern", kafka.bootstrap, f"^{first}.*", source={"start": "latest"}, action=to_file(out))
    )
    later = kafka.create_topic(f"{first}-later", 1)
    kafka.produce(later, numbers(100, 103))
    caught_up(kafka, flow, later)
    engine.stop(flow)
    assert ids(out) == [100, 101, 102]


def test_partitions_added_later_are_read_from_their_beginning(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(0, 3))
    flow = engine.run(pipeline("growing", kafka.bootstrap, [name], source={"start": "latest"}, action=to_file(out)))
    kafka.add_partitions(name, 3)
    # A producer that has not seen the topic before it grew.
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in numbers(20, 25):
        producer.produce(name, value, partition=2)
    producer.flush(30)
    until(lambda: ids(out) == list(range(20, 25)), WAIT_S, lambda: f"{ids(out)} {flow.state} {flow.reason}")
    engine.stop(flow)


def test_a_topic_made_anew_is_read_from_its_beginning(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(0, 5))
    flow = engine.run(pipeline("recreated", kafka.bootstrap, [name], action=to_file(out)))
    caught_up(kafka, flow, name)
    kafka.delete_topic(name)
    kafka.create_topic(name, 1)
    # More than before: by offsets alone the new topic would look like the old one, grown.
    kafka.produce(name, numbers(100, 120))
    # What was read under the old id before the change showed is read again; nothing is lost.
    until(lambda: set(range(100, 120)) <= set(ids(out)), WAIT_S, lambda: f"{ids(out)} {flow.state} {flow.reason}")
    engine.stop(flow)
    assert [row.kind for row in engine.store.pipelines.history("recreated")] == ["recreated"]


def test_a_topic_made_anew_while_an_event_of_the_old_one_waits_is_read_from_its_first_event(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """F11: what a worker keeps of the old topic (events read, attempts made) says nothing about the new one."""
    engine.module(
        "first_fails.py",
        """
        import json

        def act(event, config):
            with open(config["log"], "a") as log:
                log.write(json.dumps(event.value["id"]) + "\\n")
            if event.value["id"] == 0:
                raise ConnectionResetError("not yet")
        """,
    )
    name, log = topic(), tmp_path / "log"
    kafka.produce(name, numbers(0, 5))
    action = {"type": "python", "config": {"callable": "./first_fails.py:act", "config": {"log": str(log)}}}
    options = {"retry": {"attempts": 100, "backoff": "2s", "factor": 1.0}}
    flow = engine.run(pipeline("recreated-retry", kafka.bootstrap, [name], action=action, options=options))
    until(lambda: 0 in lines(log), WAIT_S, lambda: f"the first attempt: {flow.state} {flow.reason}")
    kafka.delete_topic(name)
    kafka.create_topic(name, 1)
    kafka.produce(name, numbers(100, 108))
    until(lambda: kafka.lag("recreated-retry", name) == 0, WAIT_S, lambda: f"{lines(log)} {flow.state} {flow.reason}")
    engine.stop(flow)
    # In order from its first event on; what was read under the old id before the change showed is read again.
    new = [each for each in lines(log) if each >= 100]
    assert new[-8:] == list(range(100, 108)), lines(log)
    assert set(range(1, 5)).isdisjoint(lines(log)), "order forbids to pass an event that waits"
    assert engine.dead_letters("recreated-retry") == []


def test_a_group_that_was_forgotten_goes_on_from_the_store(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    document = pipeline("forgotten", kafka.bootstrap, [name], action=to_file(out))
    kafka.produce(name, numbers(0, 5))
    flow = engine.run(document)
    caught_up(kafka, flow, name)
    until(lambda: engine.store.offsets.mirrored("forgotten"), WAIT_S, "the mirror")
    until(lambda: engine.store.offsets.mirrored("forgotten")[name, 0].offset == 5, WAIT_S, "the mirror to follow")
    engine.stop(flow)
    kafka.delete_group("forgotten")
    kafka.produce(name, numbers(5, 8))
    again = engine.run(document)
    caught_up(kafka, again, name)
    engine.stop(again)
    assert ids(out) == list(range(8))
    assert [row.kind for row in engine.store.pipelines.history("forgotten")] == ["mirror"]


def test_records_that_the_log_has_dropped_are_a_gap_that_is_told(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    document = pipeline("gap", kafka.bootstrap, [name], action=to_file(out))
    kafka.produce(name, numbers(0, 5))
    flow = engine.run(document)
    caught_up(kafka, flow, name)
    engine.stop(flow)
    kafka.produce(name, numbers(5, 20))
    kafka.delete_records(name, {0: 12})
    again = engine.run(document)
    caught_up(kafka, again, name)
    engine.stop(again)
    assert ids(out) == [*range(5), *range(12, 20)]
    (gap,) = engine.store.pipelines.history("gap")
    assert (gap.kind, gap.data) == ("gap", {"from": 5, "to": 12, "count": 7})


def test_an_offset_beyond_the_end_waits_for_a_person(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    kafka.produce(name, numbers(0, 5))
    kafka.set_offsets("beyond", {(name, 0): 50})
    flow = engine.run(pipeline("beyond", kafka.bootstrap, [name], action=to_file(tmp_path / "out.jsonl")))
    until(lambda: flow.state == "waiting", WAIT_S, lambda: f"{flow.state} {flow.reason}")
    assert "lies beyond the end of the log (5)" in (flow.reason or "")
    engine.stop(flow)
    assert kafka.offsets("beyond")[name, 0] == 50


def test_aborted_transactions_are_not_read_and_markers_hold_nothing_back(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"tx-{name}"})
    producer.init_transactions(30)
    for batch, commit in (
        (numbers(0, 3), True),
        (numbers(3, 6), False),
        (numbers(6, 9), True),
        (numbers(9, 12), False),
    ):
        producer.begin_transaction()
        for value in batch:
            producer.produce(name, value)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    flow = engine.run(pipeline("transactions", kafka.bootstrap, [name], action=to_file(out)))
    caught_up(kafka, flow, name)
    engine.stop(flow)
    assert ids(out) == [0, 1, 2, 6, 7, 8]
    assert kafka.offsets("transactions")[name, 0] == kafka.end_offsets(name)[0]


def test_records_and_the_end_of_a_transaction_in_one_answer_are_caught_up_with(
    kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """F14: the action is slow enough that the last record and the end of the partition are read together; the marker
    behind the record is no event, and yet it is behind us."""
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"tx-{name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in numbers(0, 1_500):
        producer.produce(name, value)
    producer.commit_transaction(30)
    (tmp_path / "slow.py").write_text("import time\n\ndef act(event):\n    time.sleep(0.002)\n")
    action = {"type": "python", "config": {"callable": "./slow.py:act"}}
    file = tmp_path / "caught-up.yaml"
    file.write_text(json.dumps(pipeline(f"caught-up-{name}", kafka.bootstrap, [name], action=action)))
    with PenstockProcess(["run", file, "--until-caught-up", "--json"], folder=tmp_path / "run") as process:
        assert process.wait(WAIT_S) == 0
        (counts,) = process.summary()["pipelines"].values()
    # What one process has read and not begun, another one may read again: on a busy machine lanes change meanwhile.
    assert counts["events"] >= 1_500
    assert (counts["acted"], counts["failed"]) == (1_500, 0)
    assert kafka.offsets(f"caught-up-{name}")[name, 0] == kafka.end_offsets(name)[0] == 1_501


def test_a_stateless_pipeline_has_no_group_and_begins_anew(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(partitions=2), tmp_path / "out.jsonl"
    document = pipeline("stateless", kafka.bootstrap, [name], source={"stateless": True}, action=to_file(out))
    kafka.produce(name, numbers(0, 4))
    for round_ in (1, 2):
        flow = engine.run(document)
        until(lambda n=round_: len(ids(out)) == 4 * n, WAIT_S, lambda f=flow: f"{ids(out)} {f.state}")
        engine.stop(flow)
    assert sorted(ids(out)) == sorted([*range(4), *range(4)])
    assert kafka.offsets("stateless") == {}


def test_records_of_ten_megabytes_tombstones_and_binary_keys_pass_through(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(config={"max.message.bytes": str(12 << 20)}), tmp_path / "out.jsonl"
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.max.bytes": 12 << 20})
    producer.produce(name, json.dumps({"id": 1, "text": "x" * (10 << 20)}).encode())
    producer.produce(name, None, b"gone")
    producer.produce(name, b'{"id": 2}', b"\x00\xff", headers=[("a", b"1"), ("a", b"2")])
    producer.flush(30)
    flow = engine.run(pipeline("large", kafka.bootstrap, [name], action=to_file(out)))
    caught_up(kafka, flow, name)
    engine.stop(flow)
    written = lines(out)
    assert [c[2] for c in coordinates(out)] == [0, 1, 2]
    assert len(written[0]["event"]["text"]) == 10 << 20
    assert written[1]["event"] is None
    assert written[2]["meta"]["kafka"]["headers"] == [["a", "1"], ["a", "2"]]


def test_a_missing_topic_is_named_and_read_once_it_exists(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = f"{topic()}-not-yet", tmp_path / "out.jsonl"
    flow = engine.run(pipeline("early", kafka.bootstrap, [name], action=to_file(out)), assigned=False)
    until(lambda: flow.state == "waiting", WAIT_S, lambda: f"{flow.state} {flow.reason}")
    assert f"topic '{name}' does not exist" in (flow.reason or "")
    kafka.create_topic(name, 1)
    kafka.produce(name, numbers(0, 2))
    caught_up(kafka, flow, name)
    engine.stop(flow)
    assert ids(out) == [0, 1]
