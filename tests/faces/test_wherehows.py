"""`penstock wherehows`: from sample events to rows, the way a newcomer goes."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.embedded import EmbeddedCluster
from penstock.tables.sample_events import SAMPLES
from penstock.tables.samples import sample_record
from tests.faces.cli import PENSTOCK, penstock
from tests.support.ports import free_port
from tests.support.registry import RegistryServer
from tests.support.waiting import until


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture
def database(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/wh.db"
    assert penstock("db", "create-staging", "--url", url).code == 0
    return url


def rows_of(folder: Path) -> dict[str, int]:
    with sqlite3.connect(folder / "wh.db") as connection:
        tables = {sample.table for sample in SAMPLES.values()}
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}  # noqa: S608 - our own names


@pytest.mark.spark
def test_samples_become_rows_and_load_statuses(bootstrap: str, database: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "wh.db") as connection:
        connection.execute("INSERT INTO cfg_application (app_id, app_code) VALUES (1, 'sample-azkaban')")
    job = tmp_path / "samples.job"
    options = ("--bootstrap", bootstrap, "--serve", free_port(), "--count", 4, "--job", job, "--json")
    serving = subprocess.Popen(
        [PENSTOCK, "wherehows", "sample", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until(job.exists, 60, "the samples are not produced")
        environ = {"WHZ_DB_URL": database, "PENSTOCK_HTTP_PORT": "0"}
        done = penstock("run", job, "--until-caught-up", "--timeout", 60, "--json", **environ)
        assert done.code == 0, done.err
        assert done.data["pipelines"]["samples"]["failed"] == 0
    finally:
        serving.send_signal(signal.SIGINT)
        out, err = serving.communicate(timeout=30)
    assert serving.returncode == 0, err
    assert [each["topic"] for each in json.loads(out)] == list(SAMPLES)
    assert rows_of(tmp_path) == {sample.table: 4 for sample in SAMPLES.values()} | {
        "stg_kafka_metastore_audit": 8,
        "dict_dataset": 8,
    }
    merged = penstock("wherehows", "merge", "--url", database, "--json").data
    assert (merged["rows_read"], merged["inserted"], merged["refused"]) == (12, 12, 0)
    assert penstock("wherehows", "merge", "--url", database, "--from", "2026-01-01").out.startswith("12 rows read, 0 ")


def test_a_message_on_its_topic_can_be_tried(
    bootstrap: str, database: str, registry: RegistryServer, tmp_path: Path
) -> None:
    job = tmp_path / "one.job"
    made = penstock(
        *("wherehows", "sample", "--bootstrap", bootstrap, "--registry", registry.url, "--count", 1),
        *("--topic", "GobblinTrackingEvent_lumos", "--job", job, "--json"),
    )
    assert made.code == 0, made.err + made.out
    assert made.data[0]["id_type"] == "INT"
    tail = ("topics", "tail", "GobblinTrackingEvent_lumos", "--bootstrap", bootstrap, "--from-start")
    places = [json.loads(line) for line in penstock(*tail, "--seconds", 5, "--json").out.splitlines()]
    framed = [each for each in places if each["value"]["base64"].startswith("AAAAAA")]
    place = f"{framed[-1]['topic']}/{framed[-1]['partition']}@{framed[-1]['offset']}"
    shown = penstock("wherehows", "dry-run", "--config", job, "--at", place, "--json", WHZ_DB_URL=database)
    assert shown.code == 0, shown.err
    [row] = shown.data["rows"]
    assert (row["table"], row["row"]["partition_type"]) == ("stg_kafka_gobblin_lumos", "snapshot")
    assert rows_of(tmp_path)["stg_kafka_gobblin_lumos"] == 0
    penstock("topics", "produce", "GobblinTrackingEvent_lumos", "nonsense", "--bootstrap", bootstrap)
    nowhere = penstock(
        *("wherehows", "dry-run", "--config", job, "--at", f"{place}9999", "--json"), WHZ_DB_URL=database
    )
    assert nowhere.code == 2
    assert "there is no message" in nowhere.data["error"]["message"]


def tried(record: Any, *options: object) -> Any:
    return penstock("wherehows", "dry-run", *options, "--event", "-", "--json", stdin=json.dumps(record))


def test_an_event_can_be_tried_without_anything_else(tmp_path: Path) -> None:
    record = sample_record("GobblinTrackingEvent", 0)
    done = tried(record, "models.kafka.GobblinTrackingCompactionProcessor")
    assert (done.code, done.data["outcome"]) == (0, "rows")
    assert done.data["rows"][0]["row"]["dataset"] == "/data/tracking/PageViewEvent"
    assert tried(record | {"name": "Other"}, "gobblin-compaction").data["outcome"] == "nothing"
    bad = tried(record | {"metadata": {}}, "gobblin-compaction")
    assert (bad.code, bad.data["outcome"]) == (1, "dead letter")
    assert bad.data["error"]["message"] == "the event has no value for cluster, dataset"
    file = tmp_path / "event.json"
    file.write_text(json.dumps(record))
    shown = penstock("wherehows", "dry-run", "gobblin-compaction", "--event", file)
    assert "CompactionCompleted" in shown.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["wherehows", "dry-run"], "which event?"),
        (["wherehows", "dry-run", "gobblin-lumos", "--event", "nowhere.json"], "cannot be read"),
        (["wherehows", "dry-run", "com.acme.Processor", "--event", "-"], "is a Java class"),
        (["wherehows", "ddl", "gobblin-audit"], "writes to tables of its own"),
        (["wherehows", "sample"], "which cluster?"),
        (["wherehows", "sample", "-b", "x:1", "--topic", "Nonsense"], "there are no samples of `Nonsense`"),
        (["wherehows", "sample", "-b", "x:1", "--serve", "nowhere"], "as [HOST:]PORT"),
        (["wherehows", "merge", "--url", "sqlite:///nowhere.db", "--from", "soon"], "a time like"),
        (["wherehows", "merge", "--url", "sqlite:///nowhere.db"], "there is no table log_dataset_instance_load_status"),
        (["db", "create-staging", "--url", "oracle://x/y"], "is no database that tables can be in"),
        (["db", "create-staging", "--url", "nonsense"], "neither a JDBC nor a SQLAlchemy URL"),
        (
            ["db", "create-staging", "--url", "sqlite:///x.db", "--only", "stagin"],
            "there is no table or group `stagin`",
        ),
    ],
)
def test_what_cannot_be_done_is_said(args: list[str], words: str, tmp_path: Path) -> None:
    result = penstock(*args, cwd=tmp_path, stdin="{}")
    assert result.code == 2, result.err
    assert words in result.err


def test_a_database_that_is_away_ends_with_3_and_hides_its_password(tmp_path: Path) -> None:
    url = f"postgresql://me:s3cret-pw@127.0.0.1:{free_port()}/wh"
    result = penstock("db", "create-staging", "--url", url)
    assert result.code == 3
    assert "s3cret-pw" not in result.err + result.out


def test_the_table_of_a_user_s_processor(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import penstock\n\n\nclass WebOrders(penstock.Processor):\n    columns = ['id']\n\n"
        "    def process(self, record, topic):\n        return record\n"
    )
    shown = penstock("wherehows", "ddl", "./own.py:WebOrders", cwd=tmp_path)
    assert shown.out.startswith("CREATE TABLE web_orders (")
    with sqlite3.connect(tmp_path / "x.db") as connection:
        made = penstock("wherehows", "ddl", "./own.py:WebOrders", "--dialect", "sqlite", "--json", cwd=tmp_path)
        connection.execute(made.data["statement"])
