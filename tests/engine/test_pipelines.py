"""Pipelines on a real broker: what is read is acted on, filtered or a dead letter, and only then committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.engine import Engine, coordinates, lines, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 60.0


def orders(count: int, **more: object) -> list[bytes]:
    return [json.dumps({"id": i, "status": "paid" if i % 2 else "open"} | more).encode() for i in range(count)]


def test_events_are_filtered_transformed_and_acted_on_and_the_group_holds_the_position(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(partitions=4), tmp_path / "out.jsonl"
    kafka.produce(name, orders(1000))
    flow = engine.run(
        pipeline(
            "paid",
            kafka.bootstrap,
            [name],
            filters=[{"type": "match", "config": {"event": {"status": ["paid"]}}}],
            transform=[{"type": "map", "config": {"fields": {"number": "event.id * 10"}}}],
            action={"type": "file", "config": {"path": str(out)}},
        )
    )
    until(lambda: len(lines(out)) >= 500, WAIT_S, lambda: f"{len(lines(out))} of 500 lines")
    until(lambda: kafka.lag("paid", name) == 0, WAIT_S, lambda: f"lag {kafka.lag('paid', name)}")
    engine.stop(flow)

    assert sorted(line["event"]["number"] for line in lines(out)) == [i * 10 for i in range(1000) if i % 2]
    summary = flow.stats.summary()
    assert (summary.events, summary.acted, summary.filtered, summary.failed) == (1000, 500, 500, 0)


def test_a_restart_goes_on_where_it_stopped_and_repeats_nothing(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(partitions=2), tmp_path / "out.jsonl"
    document = pipeline("restarted", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    kafka.produce(name, orders(300))
    first = engine.run(document)
    until(lambda: len(lines(out)) >= 300, WAIT_S, "the first events")
    engine.stop(first)
    kafka.produce(name, orders(200))
    second = engine.run(document)
    until(lambda: len(lines(out)) >= 500, WAIT_S, "the events after the restart")
    engine.stop(second)

    seen = coordinates(out)
    assert len(seen) == len(set(seen)) == 500
    assert kafka.lag("restarted", name) == 0


def test_whoever_looks_gets_samples_of_every_stage_and_the_others_pay_nothing(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(partitions=2), tmp_path / "out.jsonl"
    flow = engine.run(
        pipeline(
            "tapped",
            kafka.bootstrap,
            [name],
            filters=[{"type": "match", "config": {"event": {"status": ["paid"]}}}],
            transform=[{"type": "map", "config": {"fields": {"number": "event.id * 10"}}}],
            action={"type": "file", "config": {"path": str(out)}},
        )
    )
    tap = engine.instance.taps.open("tapped", ("decode", "filter", "transform", "act"), 40, 300)
    kafka.produce(name, orders(2_000))
    until(lambda: len(lines(out)) == 1_000, WAIT_S, lambda: f"{len(lines(out))} of 1000 lines")
    seen = until(lambda: tap.take(100, 1.0), WAIT_S, "a sample")
    while some := tap.take(100, 2.0):
        seen += some
    tap.close()
    engine.stop(flow)

    assert {sample.stage for sample in seen} == {"decode", "filter", "transform", "act"}
    assert {sample.became for sample in seen if sample.stage == "filter"} <= {"passed", "dropped"}
    assert {sample.became for sample in seen if sample.stage == "act"} == {"acted"}
    acted = next(sample for sample in seen if sample.stage == "act")
    assert json.loads(acted.value or "").keys() == {"number"}
    assert len(seen) < 400, "a sample, not everything"


def test_an_event_arrives_at_a_pipeline_that_was_asleep(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    flow = engine.run(
        pipeline("sleeper", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    )
    until(lambda: flow.state == "idle" and flow.activity.is_idle, WAIT_S, "the pipeline to fall asleep")
    jobs = engine.instance.spark.jobs
    kafka.produce(name, orders(1))
    until(lambda: len(lines(out)) == 1, WAIT_S, "the event behind the doorbell")
    assert engine.instance.spark.jobs > jobs
    engine.stop(flow)


def test_poison_of_every_kind_ends_as_one_dead_letter_each_with_its_bytes(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "poison.py",
        """
        import sys

        def act(event):
            kind = event.event.get("kind")
            if kind == "raise":
                raise ValueError("no such order")
            if kind == "exit":
                sys.exit(3)
            if kind == "nonsense":
                return "done"

        def change(event):
            if event.event.get("kind") == "transform":
                raise KeyError("customer")
            return event
        """,
    )
    name, dead = topic(), topic()
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", b"\xff\x00"), ("a", b"2"), ("c", None)]
    bad = [
        Sent(b"not json", b"\x00\xff\xfe", headers),
        Sent(b'{"kind": "raise"}', b"k"),
        Sent(b'{"kind": "exit"}'),
        Sent(b'{"kind": "nonsense"}'),
        Sent(b'{"kind": "transform"}'),
        Sent(b'{"kind": "filter"}'),
    ]
    good = Sent(b'{"kind": "good"}')
    kafka.produce(name, [record for each in bad for record in (good, each)] + [good])
    flow = engine.run(
        pipeline(
            "poisoned",
            kafka.bootstrap,
            [name],
            filters=[{"type": "cel", "config": {"expression": "event.kind != 'filter' || event.missing > 1"}}],
            transform=[{"type": "python", "config": {"callable": "./poison.py:change"}}],
            action={"type": "python", "config": {"callable": "./poison.py:act"}},
            options={"dead_letter": {"topic": dead, "file": "dead/poisoned.jsonl"}},
        )
    )
    until(lambda: kafka.lag("poisoned", name) == 0, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    letters = sorted(engine.dead_letters("poisoned"), key=lambda row: row.offset)
    engine.stop(flow)

    assert [row.offset for row in letters] == [1, 3, 5, 7, 9, 11]
    assert [row.stage for row in letters] == ["decode", "act", "act", "act", "transform", "filter"]
    assert [row.error_code for row in letters][1:4] == ["ValueError", "SystemExit", "act-result"]
    first = engine.store.dead_letters.get(letters[0].id)
    assert first is not None
    assert (first.letter.value, first.letter.key, first.letter.headers) == (b"not json", b"\x00\xff\xfe", headers)
    assert flow.stats.summary().acted == 7
    assert sorted(line["offset"] for line in lines(engine.folder / "dead" / "poisoned.jsonl")) == [1, 3, 5, 7, 9, 11]
    sent = {dict(record.headers())["penstock.offset"]: record.value() for record in kafka.read(dead, 6)}
    assert sent == {b"%d" % (2 * n + 1): record.value for n, record in enumerate(bad)}


def test_throw_stops_at_the_event_and_leaves_it_uncommitted(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    kafka.produce(name, [*orders(5), b"broken", *orders(5)])
    document = pipeline(
        "strict",
        kafka.bootstrap,
        [name],
        action={"type": "file", "config": {"path": str(out)}},
        options={"failure_mode": "THROW"},
    )
    flow = engine.run(document)
    until(lambda: flow.state == "failed", WAIT_S, lambda: f"{flow.state} {flow.reason}")
    engine.stop(flow)
    assert kafka.offsets("strict")[name, 0] == 5
    assert "not JSON" in (flow.reason or "")
    again = engine.run(document, assigned=False)
    until(lambda: again.state == "failed", WAIT_S, "the pipeline to stay where a person has to look at it")
    assert not again.partitions.owned()
    engine.stop(again)

    assert kafka.offsets("strict")[name, 0] == 5
    assert len(engine.dead_letters("strict")) == 1
    assert [c[2] for c in coordinates(out)] == [0, 1, 2, 3, 4]


def test_a_slow_action_delays_nobody_but_itself(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "slow.py",
        """
        import pathlib, time

        def act(event, config):
            while not pathlib.Path(config["release"]).exists():
                time.sleep(0.1)
            with open(config["path"], "a") as file:
                file.write(f"{event.meta['kafka']['offset']}\\n")
        """,
    )
    slow_topic, quick_topic, out = topic(), topic(), tmp_path / "quick.jsonl"
    slow_out, release = tmp_path / "slow.txt", tmp_path / "release"
    slow_out.touch()
    kafka.produce(slow_topic, orders(2))
    slow = engine.run(
        pipeline(
            "slow",
            kafka.bootstrap,
            [slow_topic],
            action={
                "type": "python",
                "config": {"callable": "./slow.py:act", "config": {"path": str(slow_out), "release": str(release)}},
            },
            options={"timeout": "10m"},
        )
    )
    quick = engine.run(
        pipeline("quick", kafka.bootstrap, [quick_topic], action={"type": "file", "config": {"path": str(out)}})
    )
    until(lambda: slow.busy, WAIT_S, "the slow action to begin")
    for round_ in range(1, 6):
        kafka.produce(quick_topic, orders(10))
        until(lambda n=round_: len(lines(out)) >= 10 * n, WAIT_S, "the quick pipeline beside the slow one")
    assert slow_out.read_text() == ""
    release.touch()
    until(lambda: slow_out.read_text().split() == ["0", "1"], WAIT_S, "the slow pipeline to finish in order")
    until(lambda: kafka.lag("slow", slow_topic) == 0, WAIT_S, "the slow pipeline's commit")
    engine.stop(slow)
    engine.stop(quick)
    assert slow_out.read_text().split() == ["0", "1"]


def test_strands_keep_the_order_of_each_key_and_work_side_by_side(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "strands.py",
        """
        import random, time

        def act(event, config):
            time.sleep(random.random() * 0.02)
            with open(config["path"], "a") as file:
                file.write(f"{event.key.decode()} {event.event['id']}\\n")

        async def act_async(event, config):
            import asyncio
            await asyncio.sleep(random.random() * 0.02)
            with open(config["path"], "a") as file:
                file.write(f"{event.key.decode()} {event.event['id']}\\n")
        """,
    )
    name = topic(partitions=2)
    kafka.produce(name, [Sent(json.dumps({"id": i}).encode(), str(i % 10).encode()) for i in range(600)])
    for function in ("act", "act_async"):
        out = tmp_path / f"{function}.txt"
        flow = engine.run(
            pipeline(
                f"strands-{function}",
                kafka.bootstrap,
                [name],
                action={
                    "type": "python",
                    "config": {"callable": f"./strands.py:{function}", "config": {"path": str(out)}},
                },
                options={"concurrency": 16},
            )
        )
        group = flow.spec.group
        until(lambda g=group: kafka.lag(g, name) == 0, WAIT_S, lambda f=flow: f"{f.state} {f.reason} {f.stats.counts}")
        engine.stop(flow)
        seen: dict[str, list[int]] = {}
        for line in out.read_text().splitlines():
            key, number = line.split()
            seen.setdefault(key, []).append(int(number))
        assert seen == {str(k): list(range(k, 600, 10)) for k in range(10)}


def test_a_class_plug_in_is_one_object_from_start_to_stop(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "counting.py",
        """
        import os
        from penstock import Action

        class Counting(Action):
            @classmethod
            def create(cls, config, ctx):
                return cls(config["path"])

            def __init__(self, path):
                self.path, self.seen = path, 0

            def act(self, event):
                self.seen += 1

            def close(self):
                with open(self.path, "a") as file:
                    file.write(f"{os.getpid()} {self.seen}\\n")
        """,
    )
    name, out = topic(partitions=4), tmp_path / "counts.txt"
    flow = engine.run(
        pipeline(
            "counting", kafka.bootstrap, [name], action={"type": "./counting.py:Counting", "config": {"path": str(out)}}
        )
    )
    for _ in range(3):
        kafka.produce(name, orders(50))
    until(lambda: flow.stats.counts.acted == 150, WAIT_S, lambda: f"{flow.stats.counts}")
    engine.stop(flow)
    until(out.exists, WAIT_S, "close()")
    assert [line.split()[1] for line in out.read_text().splitlines()] == ["150"]
