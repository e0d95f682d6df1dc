"""What is wanted of pipelines, said in the store and obeyed by a pair of instances on a real broker."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.core.commit_metadata import decode
from penstock.core.errors import ConfigError
from penstock.service import pipelines
from penstock.service.offsets import Target, cluster_of, plan_reset, reset_offsets
from penstock.service.specs import current_spec
from penstock.service.status import pipeline_statuses
from penstock.store import DeadLetterFilter, Store, schema
from tests.faces.cli import Result, penstock
from tests.support.engine import coordinates, pipeline
from tests.support.group import other_member
from tests.support.home import prepared_home
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 90.0
OBEY_S = 10.0
PARTITIONS = {"flowing": 4, "strict": 2, "rated": 2, "moved": 2}


@dataclass
class Pair:
    """Two instances that run the same pipelines with the same store."""

    kafka: KafkaBroker
    folder: Path
    store: Store
    run: list[PenstockProcess]

    def start(self) -> PenstockProcess:
        number = len(self.run)
        env = {
            "PENSTOCK_HOME": str(self.home),
            "PENSTOCK_ENGINE_SESSION_TIMEOUT": "6s",
            "PENSTOCK_ENGINE_HOT_LANES": "1",
        }
        process = PenstockProcess(
            ["run", self.folder / "pipelines"],
            folder=self.folder / str(number),
            env=env | {"PENSTOCK_LOG_FORMAT": "json"},
        )
        self.run.append(process.start())
        return process

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def topic(self, name: str) -> str:
        return f"{name}-{os.getpid()}"

    def out(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def done(self, name: str) -> list[tuple[int, int]]:
        return [(partition, offset) for _, partition, offset in coordinates(self.out(name))]

    def produce(self, name: str, count: int, *, partition: int | None = None, value: bytes = b'{"a": 1}') -> None:
        spread = PARTITIONS[name]
        sent = [Sent(value, partition=n % spread if partition is None else partition) for n in range(count)]
        self.kafka.produce(self.topic(name), sent)

    def members(self, name: str) -> list[int]:
        """How many partitions each member of the group has."""
        return sorted(len(places) for places in self.kafka.members(name).values())

    def await_members(self, name: str, wanted: list[int]) -> None:
        until(lambda: self.members(name) == wanted, WAIT_S, lambda: f"{self.members(name)} instead of {wanted}")

    def await_done(self, name: str, count: int) -> list[tuple[int, int]]:
        until(lambda: len(self.done(name)) >= count, WAIT_S, lambda: f"{len(self.done(name))} of {count} done")
        until(lambda: self.kafka.lag(name, self.topic(name)) == 0, WAIT_S, lambda: "lag")
        return self.done(name)

    def state(self, name: str) -> tuple[str, str | None]:
        (status,) = pipeline_statuses(self.store, name)
        return status.state, status.reason

    def cli(self, *args: object) -> Result:
        return penstock(*args, PENSTOCK_HOME=str(self.home))


@pytest.fixture(scope="module")
def pair(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    (folder / "pipelines").mkdir()
    home = prepared_home(folder / "home")
    pair = Pair(kafka, folder, Store.open(f"sqlite:///{home / 'penstock.db'}"), [])
    for name, partitions in PARTITIONS.items():
        kafka.create_topic(pair.topic(name), partitions)
        document = pipeline(
            name,
            kafka.bootstrap,
            [pair.topic(name)],
            action={"type": "file", "config": {"path": str(pair.out(name))}},
            options={"failure_mode": "THROW"} if name == "strict" else {},
        )
        (folder / "pipelines" / f"{name}.yaml").write_text(json.dumps(document))
    with pair.store:
        try:
            for process in (pair.start(), pair.start()):
                process.wait_ready(WAIT_S)
            for name, partitions in PARTITIONS.items():
                pair.await_members(name, [partitions // 2] * 2)
            yield pair
        finally:
            for process in pair.run:
                process.close()


def obeyed(pair: Pair, revisions: dict[str, int]) -> None:
    pipelines.wait_obeyed(pair.store, revisions, OBEY_S)


def test_pause_keeps_the_partitions_stop_leaves_the_group_and_resume_goes_on_without_loss_or_repetition(
    pair: Pair,
) -> None:
    pair.produce("flowing", 400)
    pair.await_done("flowing", 400)
    obeyed(pair, pipelines.pause(pair.store, ["flowing"], by="ann", reason="too loud"))
    assert pair.state("flowing") == ("paused", "too loud (by ann)")
    assert pair.members("flowing") == [2, 2]
    pair.produce("flowing", 200)
    pair.produce("moved", 20)
    pair.await_done("moved", 20)
    assert len(pair.done("flowing")) == 400, "paused, while its neighbour went on"

    obeyed(pair, pipelines.stop(pair.store, ["flowing"], by="bob"))
    assert pair.members("flowing") == []
    assert pair.state("flowing") == ("stopped", "by bob")

    obeyed(pair, pipelines.resume(pair.store, ["flowing"], by="ann"))
    done = pair.await_done("flowing", 600)
    assert len(done) == len(set(done)) == 600
    for partition in range(4):
        assert [offset for p, offset in done if p == partition] == list(range(150))
    obeyed(pair, pipelines.restart(pair.store, ["flowing"], by="ann"))
    pair.await_members("flowing", [2, 2])
    assert {row.http_address for row in pair.store.instances.alive(30)} == {process.url for process in pair.run}
    kinds = [row.kind for row in pair.store.pipelines.history("flowing")]
    assert kinds[:4] == ["restarted", "resumed", "stopped", "paused"]


def test_throw_stops_every_instance_and_skip_steps_over_exactly_the_event(pair: Pair) -> None:
    pair.produce("strict", 3, partition=0)
    pair.produce("strict", 1, partition=0, value=b"poison")
    pair.produce("strict", 3, partition=0)
    pair.produce("strict", 4, partition=1)

    def failed_at() -> list[dict[str, Any]]:
        wanted = pair.store.desired.get("strict")
        return wanted.events if wanted is not None and wanted.state == "failed" else []

    event = until(failed_at, WAIT_S, "THROW to be known to all")
    place = {"topic": pair.topic("strict"), "partition": 0, "offset": 3}
    assert event == [place | {"topic_id": pair.kafka.topic_id(pair.topic("strict"))}]
    pair.await_members("strict", [])
    assert pair.kafka.offsets("strict")[pair.topic("strict"), 0] == 3

    again = pair.cli("pipelines", "resume", "strict", "--no-wait", "--json")
    assert (again.code, again.data[0]["desired"]) == (0, "running"), again.err
    until(failed_at, WAIT_S, "THROW at the same event again")
    pair.await_members("strict", [])
    skipped = pair.cli("pipelines", "resume", "strict", "--skip", "--reason", "known", "--json")
    assert skipped.code == 0, skipped.err
    assert skipped.data[0]["skipped"] == event
    pair.produce("strict", 2, partition=1)
    done = pair.await_done("strict", 12)
    assert sorted(done) == sorted([(0, o) for o in (0, 1, 2, 4, 5, 6)] + [(1, o) for o in range(6)])
    (letter,) = pair.store.dead_letters.list(DeadLetterFilter(pipeline="strict"), limit=10)
    assert (letter.partition, letter.offset, letter.status) == (0, 3, "new")
    nothing = pair.cli("pipelines", "resume", "strict", "--skip")
    assert nothing.code == 2
    assert "did not stop at an event" in nothing.err


def test_a_rate_limit_holds_over_both_instances_and_is_lifted_while_they_run(pair: Pair) -> None:
    assert pair.cli("pipelines", "rate-limit", "rated", "20/s").code == 0
    began = time.monotonic()
    pair.produce("rated", 100)
    pair.await_done("rated", 100)
    assert time.monotonic() - began > 3.0
    lifted = pair.cli("pipelines", "rate-limit", "rated", "none", "--json")
    assert lifted.data[0]["rate_limit"] == "none"
    began = time.monotonic()
    pair.produce("rated", 1000)
    pair.await_done("rated", 1100)
    assert time.monotonic() - began < 1000 / 20, "no longer twenty a second"
    assert pair.cli("pipelines", "rate-limit", "rated", "fast").code == 2


def test_offsets_are_reset_with_a_preview_and_instances_come_back(pair: Pair) -> None:
    topic = pair.topic("moved")
    before = len(pair.done("moved"))
    pair.produce("moved", 50)
    pair.await_done("moved", before + 50)
    each = (before + 50) // 2
    preview = pair.cli("offsets", "reset", "moved", "--to-earliest", "--dry-run", "--json")
    row = {"topic": topic, "partition": 0, "old": each, "new": 0, "skipped": 0, "repeated": each}
    assert preview.data == {"pipeline": "moved", "done": False, "partitions": [row, row | {"partition": 1}]}
    assert pair.cli("offsets", "reset", "moved", "--to-earliest").code == 2, "without --yes nothing happens"
    back = pair.cli("offsets", "reset", "moved", "--shift-by", "-5", "--partition", "1", "--yes", "--json")
    assert (back.code, back.data["partitions"][0]["repeated"]) == (0, 5), back.err
    done = pair.await_done("moved", before + 55)
    assert done[-5:] == [(1, offset) for offset in range(each - 5, each)]
    pair.await_members("moved", [1, 1])

    note = decode(pair.kafka.offsets("moved")[topic, 1], pair.kafka.offset_metadata("moved")[topic, 1])
    assert note.topic_id == pair.kafka.topic_id(topic)
    reset = next(row for row in pair.store.pipelines.history("moved") if row.kind == "reset")
    assert reset.data["partitions"] == back.data["partitions"]

    obeyed(pair, pipelines.pause(pair.store, ["moved"], by="ann"))
    spec = current_spec("moved", [], pair.store)
    reset_offsets(pair.store, cluster_of(spec), spec, Target("offset", 3))
    assert {offset for (name, _), offset in pair.kafka.offsets("moved").items() if name == topic} == {3}
    assert {row.offset for row in pair.store.offsets.mirrored("moved").values()} == {3}
    revision = pair.store.desired.all()["moved"].revision
    assert pair.cli("offsets", "reset", "moved", "--to-offset", "9999", "--yes").code == 2, "outside the log"
    assert {offset for (name, _), offset in pair.kafka.offsets("moved").items() if name == topic} == {3}
    assert pair.store.desired.all()["moved"].revision == revision
    reset_offsets(pair.store, cluster_of(spec), spec, Target("time", int(time.time() * 1000)))
    obeyed(pair, pipelines.resume(pair.store, ["moved"], by="ann"))
    shown = pair.cli("offsets", "show", "moved", "--json").data
    assert [(view["partition"], view["committed"], view["lag"]) for view in shown] == [(0, each, 0), (1, each, 0)]
    assert len(pair.done("moved")) == before + 55, "what was skipped is not worked on"


@pytest.mark.parametrize(
    ("target", "where", "text"),
    [
        (Target("earliest"), {"topic": "no-such-topic"}, "no-such-topic"),
        (Target("earliest"), {"partition": 9}, "there is no partition 9"),
        (Target("offset", 1_000_000), {}, "outside the log"),
        (Target("shift", -1_000_000), {"partition": 0}, "outside the log"),
        (Target("group", group="nobody"), {}, "no offset"),
    ],
)
def test_a_reset_that_cannot_be_done_is_refused_before_anybody_is_disturbed(
    pair: Pair, target: Target, where: dict[str, Any], text: str
) -> None:
    spec = current_spec("moved", [], pair.store)
    with pytest.raises(ConfigError, match=text):
        plan_reset(cluster_of(spec), spec, target, **where)


def test_a_reset_is_refused_where_another_consumer_is_in_the_group_and_names_it(pair: Pair) -> None:
    with other_member(pair.kafka, "moved", pair.topic("moved"), owns=0):
        refused = pair.cli("offsets", "reset", "moved", "--to-earliest", "--yes", "--json")
        assert refused.code == 1
        assert refused.data["error"]["code"] == "group_busy"
        assert refused.data["error"]["received"] == ["rdkafka on 127.0.0.1"]
    pair.await_members("moved", [1, 1])


def test_a_reset_whose_command_died_lets_the_instances_come_back(pair: Pair) -> None:
    held = pair.store.desired.hold("moved", by="somebody who died", seconds=4)
    obeyed(pair, {"moved": held.revision})
    assert pair.members("moved") == []
    assert pair.state("moved") == ("stopped", "offsets are being reset by somebody who died")
    pair.await_members("moved", [1, 1])


def test_what_is_wanted_outlives_a_restart_and_a_newer_store_stops_no_instance_but_a_new_one(pair: Pair) -> None:
    obeyed(pair, pipelines.pause(pair.store, ["flowing"], by="ann", reason="over night"))
    assert pair.run[0].stop() == 0
    again = pair.start().wait_ready(WAIT_S)
    assert "pipeline does not run" in again.log
    pair.await_members("flowing", [2, 2])
    assert pair.state("flowing") == ("paused", "over night (by ann)")

    with pair.store._database.write() as connection:
        connection.execute(sa.text("ALTER TABLE penstock_desired_states ADD COLUMN later TEXT DEFAULT 'x' NOT NULL"))
        connection.execute(sa.text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))  # noqa: S608 - a constant
    refused = pair.cli("run", pair.folder / "pipelines")
    assert refused.code == 1
    assert "store-too-new" in refused.err
    assert pair.cli("db", "current", "--json").data["state"] == "newer"
    before = len(pair.done("flowing"))
    obeyed(pair, pipelines.resume(pair.store, ["flowing"], by="ann"))
    pair.produce("flowing", 40)
    pair.await_done("flowing", before + 40)
    for process in pair.run[1:]:
        assert process.stop() == 0
    assert pair.store.desired.all()["flowing"].state == "running"
