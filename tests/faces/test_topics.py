"""`penstock topics` and `dry-run` on the embedded cluster (and, where it cannot do it, on a real broker)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.kafka.embedded import EmbeddedCluster
from penstock.store.store import Store
from tests.faces.cli import penstock
from tests.support.kafka import KafkaBroker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        yield cluster.bootstrap


def pipeline(folder: Path, bootstrap: str, topic: str = "orders") -> Path:
    file = folder / "pipeline.yaml"
    connection = f'{{bootstrap: "{bootstrap}"}}'
    source = f"{{type: kafka, config: {{connection: {connection}, topics: [{topic}]}}}}"
    file.write_text(f"name: p\nsource: {source}\naction: {{type: hello_world}}\n")
    return file


def test_what_was_produced_can_be_listed_and_read(bootstrap: str) -> None:
    options = ("--bootstrap", bootstrap)
    made = penstock(
        "topics", "produce", "there-and-back", '{"a": 1}', *options, "-k", "k1", "--header", "h=v", "--json"
    )
    assert made.code == 0, made.err
    (place,) = made.data
    assert place["offset"] == 0
    assert penstock("topics", "produce", "there-and-back", *options, stdin="one\n\x1b[31mtwo\n").code == 0
    assert penstock("topics", "produce", "there-and-back", *options, "--tombstone", "-k", "k1").code == 0
    listed = {view["topic"]: view for view in penstock("topics", "list", *options, "--json").data}
    assert listed["there-and-back"]["records"] == 4
    tail = ("topics", "tail", "there-and-back", *options, "--from-start", "--count", 4, "--seconds", 30)
    records = [json.loads(line) for line in penstock(*tail, "--json").out.splitlines()]
    assert sorted(str(record["value"]) for record in records) == ["\x1b[31mtwo", "None", "one", '{"a": 1}']
    (first,) = [record for record in records if record["headers"]]
    assert (first["key"], first["headers"]) == ("k1", [{"name": "h", "value": "v"}])
    shown = penstock(*tail)
    assert "\x1b" not in shown.out
    assert r"\x1b[31mtwo" in shown.out


def test_the_cluster_may_come_from_a_pipeline_file(bootstrap: str, tmp_path: Path) -> None:
    result = penstock("topics", "list", "--config", pipeline(tmp_path, bootstrap), "--json")
    assert "orders" in [view["topic"] for view in result.data]


def test_tail_ends_by_itself(bootstrap: str) -> None:
    result = penstock("topics", "tail", "orders", "--bootstrap", bootstrap, "--seconds", 0.5)
    assert (result.code, result.out) == (0, "")


def test_a_missing_topic_is_a_clear_error(bootstrap: str, kafka: KafkaBroker) -> None:
    result = penstock("topics", "tail", "absent", "--bootstrap", kafka.bootstrap)
    assert result.code == 2
    assert "absent" in result.err


def test_create_makes_a_topic_once(kafka: KafkaBroker) -> None:
    create = ("topics", "create", "made-by-hand", "--partitions", 3, "--bootstrap", kafka.bootstrap)
    assert penstock(*create, "--set", "cleanup.policy=compact").code == 0
    views = penstock("topics", "list", "--bootstrap", kafka.bootstrap, "--json").data
    assert {"topic": "made-by-hand", "partitions": 3, "records": 0} in views
    assert penstock(*create).code == 2
    assert penstock(*create, "--set", "nonsense").code == 2


def test_a_broker_that_is_away_ends_with_3() -> None:
    result = penstock("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert result.code == 3
    assert "Traceback" not in result.err


def test_dry_run_reports_each_step(kafka: KafkaBroker, tmp_path: Path) -> None:
    penstock("topics", "create", "dry", "--bootstrap", kafka.bootstrap)
    result = penstock("dry-run", pipeline(tmp_path, kafka.bootstrap, "dry"), "--json")
    assert result.code == 0, result.out
    steps = [finding["step"] for finding in result.data["pipelines"]["p"]]
    assert {"config", "dns", "tcp", "metadata", "topic", "group"} <= set(steps)
    text = penstock("dry-run", pipeline(tmp_path, kafka.bootstrap, "dry"))
    assert text.code == 0
    assert "tcp" in text.out


def test_dry_run_tells_a_missing_topic_from_a_missing_broker(kafka: KafkaBroker, tmp_path: Path) -> None:
    missing = penstock("dry-run", pipeline(tmp_path, kafka.bootstrap, "absent"), "--json")
    assert missing.code == 1
    assert [f["step"] for f in missing.data["pipelines"]["p"] if f["ok"] is False] == ["topic"]
    away = penstock("dry-run", pipeline(tmp_path, "127.0.0.1:1"), "--json", "--timeout", 1)
    assert away.code == 3
    assert "tcp" in [f["step"] for f in away.data["pipelines"]["p"] if f["ok"] is False]


def test_status_asks_the_cluster_for_lag(kafka: KafkaBroker, tmp_path: Path, penstock_home: Path) -> None:
    penstock_home.mkdir()
    with Store.open(f"sqlite:///{penstock_home / 'penstock.db'}") as store:
        store.pipelines.put_state("p", "gone", "running")
    kafka.create_topic("orders-with-lag", 1, None)
    assert penstock("topics", "produce", "orders-with-lag", "1", "2", "--bootstrap", kafka.bootstrap).code == 0
    file = pipeline(tmp_path, kafka.bootstrap, "orders-with-lag")
    (status,) = penstock("status", "--config", file, "--json").data
    (place,) = status["partitions"]
    assert place == {
        "topic": "orders-with-lag",
        "partition": 0,
        "committed": None,
        "end": 2,
        "lag": 2,
        "owner": None,
    }
    away = penstock("status", "--config", pipeline(tmp_path, "127.0.0.1:1"), "--json")
    assert away.code == 0, "what the store knows is shown all the same"
    assert away.data[0]["pipeline"] == "p"
    assert "no figures from Kafka" in away.err
