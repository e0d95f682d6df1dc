"""Replays of dead letters and of ranges, through current specs, on one Spark: in order, bit for bit, resumable, and
without touching the group's position."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.config.loading import load
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.engine.replay.replay import lane_names
from penstock.engine.spark.context import Spark
from penstock.service.replay import Edit, LetterReplay, PreparedReplay, plan_file, plan_letters, plan_range
from penstock.service.replayers import release_orphans
from penstock.service.warm_up import begin_spark
from penstock.store import DeadLetterFilter, Store, StoredDeadLetter, Which
from tests.behaviour.store.letters import letter as stored_letter
from tests.support.engine import coordinates, lines, pipeline
from tests.support.home import prepared_home
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 150.0

ACTIONS = """
import base64, json, os, time
from pathlib import Path

from penstock.core.errors import Unavailable


def refuse(event):
    raise ValueError(f"no {event.event['id']}")


def note(event, config):
    # What a replay must give back bit for bit.
    record = event.record
    raw = lambda b: None if b is None else base64.b64encode(b).decode()
    line = [record.topic(), record.partition(), record.offset(), raw(record.key()), raw(record.value()),
            [[n, raw(v)] for n, v in record.headers() or []], list(record.timestamp())]
    with open(config["out"], "a") as out:
        out.write(json.dumps(line) + "\\n")


def flaky(event, config):
    tries = Path(config["folder"]) / f"{event.record.offset()}.tries"
    seen = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (seen + 1))
    if seen < config["failures"]:
        raise ValueError("not yet")


def away(event, config):
    if not Path(config["gate"]).exists():
        raise Unavailable("the target is away")
    note(event, config)


def deadly(event, config):
    if event.event["id"] == 7:
        os._exit(9)
    note(event, config)


def slow(event, config):
    time.sleep(0.05)
    note(event, config)


def hang(event, config):
    if event.event["id"] == 7:
        time.sleep(3600)
    note(event, config)
"""


class Bench:
    """One Spark and one store, and what the tests do with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = prepared_home(folder / "home")
        self.settings = Settings.load({"PENSTOCK_HOME": str(self.home)}, cwd=folder)
        self.store = Store.open(self.settings.store_url)
        self.spark: Spark = begin_spark(self.settings, lanes=lane_names(2))
        (folder / "acts.py").write_text(ACTIONS)

    def file(self, document: dict[str, Any]) -> Path:
        file = self.folder / f"{document['name']}.json"
        file.write_text(json.dumps(document))
        return file

    def python(self, name: str, **config: Any) -> dict[str, Any]:
        return {"type": "python", "config": {"callable": f"./acts.py:{name}", "config": config}}

    def replay(self, which: Which, file: Path, *, stop: threading.Event | None = None, **more: Any) -> LetterReplay:
        done = LetterReplay(plan_letters(self.store, which, [file], more.get("edit")), self.store, **self._limits(more))
        done.run(self.spark, stop or threading.Event())
        return done

    def _limits(self, more: dict[str, Any]) -> dict[str, Any]:
        return {"max_replays": 3} | more

    def range(self, file: Path, first: object = "earliest", end: object = "latest", **more: Any) -> PreparedReplay:
        rate = more.pop("rate", None)
        done = PreparedReplay(plan_range(self.spec(file), first=str(first), end=str(end), **more), self.store, rate)
        done.run(self.spark, threading.Event())
        return done

    def spec(self, file: Path) -> PipelineSpec:
        loaded = load([file])
        assert not loaded.problems, [str(problem) for problem in loaded.problems]
        return loaded.specs[0]

    def letters(self, name: str) -> list[StoredDeadLetter]:
        return [letter for page in self.store.dead_letters.pages(DeadLetterFilter(pipeline=name)) for letter in page]

    def statuses(self, name: str) -> dict[str, int]:
        return dict(self.store.dead_letters.counts_by_status(DeadLetterFilter(pipeline=name)))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("replay"))
    made.spark.start()
    yield made
    made.spark.stop()
    made.store.close()


def numbers(count: int) -> list[bytes]:
    return [json.dumps({"id": i}).encode() for i in range(count)]


def failed(bench: Bench, kafka: KafkaBroker, name: str, topic: str) -> None:
    """Make dead letters of everything in the topic, the way a pipeline does."""
    document = pipeline(name, kafka.bootstrap, [topic], action=bench.python("refuse"))
    document["options"] = {"breaker": {"enabled": False}}
    bench.range(bench.file(document))


def test_failed_events_are_replayed_in_order_and_bit_for_bit(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(3, {"retention.ms": "-1"}), tmp_path / "out.jsonl"
    headers = [("trace", b"1"), ("trace", b"\xff\x00"), ("none", None)]
    sent = [
        Sent(
            b'{"id": %d}' % i if i % 50 else b"\xff not json",
            b"\x00key%d" % (i % 7),
            headers,
            i % 3,
            1_700_000_000_000 + i,
        )
        for i in range(600)
    ]
    kafka.produce(name, sent)
    failed(bench, kafka, "fixed", name)
    assert bench.statuses("fixed") == {"new": 600}
    assert {step.kind for letter in bench.letters("fixed") for step in letter.history} == {"failed"}
    document = pipeline(
        "fixed", kafka.bootstrap, [name], source={"format": "raw"}, action=bench.python("note", out=str(out))
    )
    done = bench.replay(DeadLetterFilter(pipeline="fixed"), bench.file(document))
    assert done.as_dict()["done"] == done.total == 600
    assert bench.statuses("fixed") == {"replayed": 600}
    seen = lines(out)
    for partition in range(3):
        mine = [line for line in seen if line[1] == partition]
        assert [line[2] for line in mine] == list(range(200)), "in order, each once"
        for line, was in zip(mine, sent[partition::3], strict=True):
            assert base64.b64decode(line[3]) == was.key
            assert base64.b64decode(line[4]) == was.value
            assert [(n, None if v is None else base64.b64decode(v)) for n, v in line[5]] == headers
            assert line[6] == [1, was.timestamp]
    histories = {tuple(step.kind for step in letter.history) for letter in bench.letters("fixed")}
    assert histories == {("failed", "replayed")}
    assert kafka.offsets("fixed") == {}, "the group's position is not touched"


def test_what_fails_again_is_new_again_and_parked_in_the_end(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str]
) -> None:
    name = topic(partitions=2)
    kafka.produce(name, numbers(80))
    failed(bench, kafka, "again", name)
    document = pipeline("again", kafka.bootstrap, [name], action=bench.python("refuse"))
    file, which = bench.file(document), DeadLetterFilter(pipeline="again")
    first = bench.replay(which, file, max_replays=2)
    assert first.failed
    assert bench.statuses("again") == {"new": 80}
    bench.replay(which, file, max_replays=2)
    assert bench.statuses("again") == {"parked": 80}
    assert plan_letters(bench.store, which, [file]).letters == 0, "parked letters are replayed only when asked for"
    letter = bench.letters("again")[0]
    assert [step.kind for step in letter.history] == ["failed", "replay-failed", "replay-failed", "parked"]
    assert letter.replays == 2
    document["action"] = {"type": "hello_world"}
    bench.replay(DeadLetterFilter(pipeline="again", status="parked"), bench.file(document))
    assert bench.statuses("again") == {"replayed": 80}


def test_one_letter_is_edited_and_keeps_its_bytes(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, [b"{broken", b"{broken too"])
    failed(bench, kafka, "edited", name)
    letter = bench.letters("edited")[1]
    file = bench.file(
        pipeline("edited", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    )
    done = bench.replay([letter.id], file, edit=Edit(b'{"mended": true}'))
    assert done.done == 1
    assert [line["event"] for line in lines(out)] == [{"mended": True}]
    after = bench.store.dead_letters.get(letter.id)
    assert after is not None
    assert after.row.status == "replayed"
    assert after.letter.value == b"{broken too"
    assert after.history[-1].data["edited_value"] == '{"mended": true}'
    assert bench.statuses("edited") == {"new": 1, "replayed": 1}


def test_retries_apply_and_a_filter_counts_as_done(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    kafka.produce(name, numbers(6))
    failed(bench, kafka, "retried", name)
    document = pipeline(
        "retried",
        kafka.bootstrap,
        [name],
        filters=[{"type": "cel", "config": {"expression": "event.id != 3"}}],
        action=bench.python("flaky", folder=str(tmp_path), failures=2),
        options={"retry": {"attempts": 3, "backoff": "100ms"}},
    )
    done = bench.replay(DeadLetterFilter(pipeline="retried"), bench.file(document))
    ended = done.ended["retried"]
    assert (ended.acted, ended.filtered, ended.failed, ended.retried) == (5, 1, 0, 10)
    assert bench.statuses("retried") == {"replayed": 6}


def test_an_outage_is_waited_out_and_marks_nothing(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out, gate = topic(), tmp_path / "out.jsonl", tmp_path / "gate"
    kafka.produce(name, numbers(5))
    failed(bench, kafka, "outage", name)
    file = bench.file(
        pipeline("outage", kafka.bootstrap, [name], action=bench.python("away", gate=str(gate), out=str(out)))
    )
    plan = plan_letters(bench.store, DeadLetterFilter(pipeline="outage"), [file])
    replay = LetterReplay(plan, bench.store, 3)
    running = threading.Thread(target=replay.run, args=(bench.spark, threading.Event()))
    running.start()
    until(lambda: replay.note and "the target is away" in replay.note, WAIT_S, lambda: replay.note)
    assert bench.statuses("outage") == {"replaying": 5}
    gate.touch()
    running.join(WAIT_S)
    assert bench.statuses("outage") == {"replayed": 5}
    assert [line[2] for line in lines(out)] == list(range(5))


@pytest.mark.parametrize("how", ["deadly", "hang"])
def test_an_event_that_kills_or_hangs_fails_and_its_neighbours_do_not(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path, how: str
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(20))
    failed(bench, kafka, how, name)
    document = pipeline(how, kafka.bootstrap, [name], action=bench.python(how, out=str(out)), options={"timeout": "2s"})
    bench.replay(DeadLetterFilter(pipeline=how), bench.file(document))
    assert bench.statuses(how) == {"replayed": 19, "new": 1}
    (left,) = [letter for letter in bench.letters(how) if letter.row.status == "new"]
    assert (left.row.offset, left.row.stage) == (7, "crash" if how == "deadly" else "timeout")
    acted = [line[2] for line in lines(out)]
    assert sorted(set(acted)) == [i for i in range(20) if i != 7]
    # L1: each of the two deaths repeats what was not returned; one that hangs is given up and repeats nothing.
    assert max(Counter(acted).values()) <= (3 if how == "deadly" else 1)


def test_a_cancelled_replay_marks_what_is_done_and_releases_the_rest(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(400))
    failed(bench, kafka, "cancelled", name)
    file = bench.file(pipeline("cancelled", kafka.bootstrap, [name], action=bench.python("slow", out=str(out))))
    stop = threading.Event()
    plan = plan_letters(bench.store, DeadLetterFilter(pipeline="cancelled"), [file])
    replay = LetterReplay(plan, bench.store, 3)
    running = threading.Thread(target=replay.run, args=(bench.spark, stop))
    running.start()
    until(lambda: replay.done, WAIT_S, "the first letters")
    stop.set()
    running.join(WAIT_S)
    acted = len(lines(out))
    assert 0 < acted < 400
    assert bench.statuses("cancelled") == {"replayed": acted, "new": 400 - acted}
    assert replay.marks["cancelled"].released == 400 - acted
    document = pipeline("cancelled", kafka.bootstrap, [name], action=bench.python("note", out=str(out)))
    bench.replay(DeadLetterFilter(pipeline="cancelled"), bench.file(document))
    assert [line[2] for line in lines(out)] == list(range(400))


def test_a_killed_replay_is_resumed(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(300))
    failed(bench, kafka, "killed", name)
    file = bench.file(pipeline("killed", kafka.bootstrap, [name], action=bench.python("slow", out=str(out))))
    command = ["dead-letters", "replay", "--pipeline", "killed", "--config", file, "--yes"]
    with PenstockProcess(command, folder=tmp_path / "process", env={"PENSTOCK_HOME": str(bench.home)}) as process:
        until(lambda: bench.statuses("killed").get("replayed"), WAIT_S, lambda: process.log)
        process.kill()
        noted = bench.statuses("killed")
        assert noted["replaying"] > 0
        assert plan_letters(bench.store, DeadLetterFilter(pipeline="killed"), [file]).letters == 0
        assert release_orphans(bench.store, "test") == noted["replaying"]
    fast = bench.file(pipeline("killed", kafka.bootstrap, [name], action=bench.python("note", out=str(out))))
    bench.replay(DeadLetterFilter(pipeline="killed"), fast)
    assert bench.statuses("killed") == {"replayed": 300}
    offsets = [line[2] for line in lines(out)]
    assert set(offsets) == set(range(300))
    assert len(offsets) <= 300 + 150, "at most three windows are repeated"


def test_a_range_by_offset_and_by_time(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(2, {"retention.ms": "-1"}), tmp_path / "out.jsonl"
    base = 1_700_000_000_000
    kafka.produce(name, [Sent(v, None, None, i % 2, base + i * 1000) for i, v in enumerate(numbers(100))])
    kafka.set_offsets("ranged", {(name, 0): 3})
    file = bench.file(
        pipeline("ranged", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    )
    by_offset = bench.range(file, 10, 20, partition=1, rate=5)
    assert by_offset.ended is not None
    assert by_offset.ended.acted == 10
    assert by_offset.ended.seconds > 1.5, "five in a second"
    assert sorted(coordinates(out)) == [(name, 1, offset) for offset in range(10, 20)]
    out.unlink()
    by_time = bench.range(file, base + 40_000, "2023-11-14T22:14:30Z")
    assert by_time.ended is not None
    assert by_time.ended.acted == 30
    assert sorted(line["event"]["id"] for line in lines(out)) == list(range(40, 70))
    for partition in range(2):
        mine = [offset for _, p, offset in coordinates(out) if p == partition]
        assert mine == sorted(mine)
    assert kafka.offsets("ranged") == {(name, 0): 3}
    assert [row.kind for row in bench.store.pipelines.history("ranged")] == ["replay", "replay"]


def test_a_range_without_order_is_spread_and_complete(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(45_000))
    document = pipeline("spread", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    document["options"] = {"ordering": "none"}
    done = bench.range(bench.file(document), 1_000, 44_000)
    assert done.ended is not None
    assert (done.ended.events, done.ended.acted) == (43_000, 43_000)
    offsets = [offset for _, _, offset in coordinates(out)]
    assert sorted(offsets) == list(range(1_000, 44_000))
    assert offsets != sorted(offsets), "parts of the range ran side by side"


def test_a_range_over_transactions_and_gaps_comes_to_its_end(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for number, good in enumerate((True, False, True)):
        producer.begin_transaction()
        for value in numbers(5):
            producer.produce(name, value)
        producer.flush(30)
        producer.commit_transaction(30) if good else producer.abort_transaction(30)
        assert number < 3
    file = bench.file(pipeline("gaps", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}}))
    done = bench.range(file)
    assert done.ended is not None
    assert done.ended.acted == 10
    assert [offset for _, _, offset in coordinates(out)] == [0, 1, 2, 3, 4, 12, 13, 14, 15, 16]
    out.unlink()
    bench.range(file, 3, 11)
    assert [offset for _, _, offset in coordinates(out)] == [3, 4], "it ends within the aborted transaction"


def test_a_range_stops_at_a_failure_where_the_pipeline_would(
    bench: Bench, kafka: KafkaBroker, topic: Callable[..., str]
) -> None:
    name = topic()
    kafka.produce(name, numbers(10))
    document = pipeline("thrown", kafka.bootstrap, [name], action=bench.python("refuse"))
    document["options"] = {"failure_mode": "THROW"}
    done = bench.range(bench.file(document), 2)
    assert done.ended is not None
    assert "no 2" in (done.ended.halted or "")
    assert [letter.row.offset for letter in bench.letters("thrown")] == [2]


def test_events_that_datahub_kept_are_replayed_and_a_large_letter_is_whole(
    bench: Bench, kafka: KafkaBroker, tmp_path: Path
) -> None:
    out, log = tmp_path / "out.jsonl", tmp_path / "failed_events.log"
    places = [{"kafka": {"topic": "hub", "partition": 1, "offset": offset}} for offset in (8, 5, 5)]
    events = [json.dumps({"event_type": "x", "event": {"n": n}, "meta": place}) for n, place in enumerate(places)]
    log.write_text("\n".join(events) + "\n")
    document = pipeline("hub", kafka.bootstrap, ["hub"], action={"type": "file", "config": {"path": str(out)}})
    done = PreparedReplay(plan_file(bench.spec(bench.file(document)), log), bench.store)
    done.run(bench.spark, threading.Event())
    assert [line["event"] for line in lines(out)] == [{"n": 1}, {"n": 0}], "in order, each once"
    large = json.dumps({"text": "x" * 3_000_000}).encode()
    bench.store.dead_letters.record([replace(stored_letter(4, pipeline="hub"), value=large)])
    assert any((bench.home / "payloads").rglob("*")), "it is not in the row"
    bench.replay(DeadLetterFilter(pipeline="hub"), bench.file(document))
    assert len(lines(out)[-1]["event"]["text"]) == 3_000_000
