"""A WhereHows job file as it is: events framed and registered as its producers do, rows in its tables."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, produce
from penstock.tables.creation import create_tables
from penstock.tables.target import Target
from tests.faces.cli import penstock
from tests.support.dialect_registry import DialectServer
from tests.support.instance import PenstockProcess
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

STAGING = "stg_kafka_gobblin_compaction"
UUID = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
TRACKING = {
    "type": "record",
    "name": "GobblinTrackingEvent",
    "namespace": "gobblin.metrics",
    "fields": [
        {"name": "timestamp", "type": "long", "default": 0},
        {"name": "namespace", "type": ["string", "null"]},
        {"name": "name", "type": "string"},
        {"name": "metadata", "type": {"type": "map", "values": "string"}, "default": {}},
    ],
}


def framed(event: dict[str, Any], schema_id: bytes) -> bytes:
    out = io.BytesIO()
    out.write(b"\x00" + schema_id)
    fastavro.schemaless_writer(out, fastavro.parse_schema(TRACKING), event)
    return out.getvalue()


def completed(number: int) -> dict[str, Any]:
    metadata = {
        "clusterIdentifier": "holdem",
        "datasetUrn": f"/data/{number}",
        "partition": "daily/1",
        "recordCount": str(number),
        "azkabanExecId": "5",
    }
    return {
        "timestamp": 1000 + number,
        "namespace": "compaction.tracking.events",
        "name": "CompactionCompleted",
        "metadata": metadata,
    }


@pytest.fixture
def registries() -> Iterator[tuple[DialectServer, DialectServer]]:
    with DialectServer("linkedin") as broken, DialectServer("linkedin", {UUID: TRACKING, "7": TRACKING}) as good:
        broken.faults.status = 503
        yield broken, good


@pytest.mark.kafka
@pytest.mark.spark
def test_a_job_file_fills_its_tables(
    kafka: KafkaBroker,
    topic: Callable[..., str],
    registries: tuple[DialectServer, DialectServer],
    tmp_path: Path,
) -> None:
    topics = [topic(), topic(), topic()]
    file = tmp_path / "gobblin.job"
    file.write_text(
        f"""\
# as it was, with the brokers added
job.type = kafka
group.id = {topics[0]}-wherehows
schemaRegistryUrl = {registries[0].url}, {registries[1].url}
zookeeper.connect = localhost:2181
zookeeper.session.timeout.ms = 6000
auto.commit.interval.ms = 1000
auto.offset.reset = smallest
bootstrap.servers = ${{BROKERS}}
kafka.topics = {topics[0]},\\
               {topics[1]},\\
               {topics[2]}
kafka.processors = models.kafka.GobblinTrackingCompactionProcessor,\\
                   metadata.etl.kafka.GobblinTrackingCompactionProcessor,\\
                   com.example.kafka.OurProcessor
kafka.db.tables = stg_kafka_gobblin_compaction, stg_kafka_gobblin_compaction, our_table
penstock.schemaid.type.{topics[1]} = INT
"""
    )
    target = Target(f"sqlite:///{tmp_path}/wh.db")
    create_tables(target)
    target.close()
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=kafka.bootstrap))
    uuid, number = bytes.fromhex(UUID), (7).to_bytes(4, "big")
    values = {
        topics[0]: [framed(completed(n), uuid) for n in range(1, 6)] + [b"\x01nonsense", b"\x00\x01", None],
        topics[1]: [framed(completed(n), number) for n in range(6, 11)],
        topics[2]: [framed(completed(99), uuid)],
    }
    produce(client, [NewRecord(name, value, b"k") for name, several in values.items() for value in several])
    environ = {"BROKERS": kafka.bootstrap, "WHZ_DB_URL": f"jdbc:sqlite:{tmp_path}/wh.db", "PENSTOCK_HTTP_PORT": "0"}
    done = penstock("run", file, "--until-caught-up", "--timeout", "45", "--json", **environ)
    assert done.code == 1, "a topic that cannot be read is not forgotten\n" + done.err
    assert f"topic {topics[2]} is not read: `com.example.kafka.OurProcessor` is a Java class" in done.err
    with sqlite3.connect(tmp_path / "wh.db") as database:
        rows = database.execute(
            "SELECT dataset, cluster, record_count, log_event_time, ps_topic, ps_offset"
            " FROM stg_kafka_gobblin_compaction ORDER BY record_count"
        ).fetchall()
    assert rows == [
        (f"/data/{n}", "holdem", n, 1000 + n, topics[0] if n < 6 else topics[1], (n - 1) % 5) for n in range(1, 11)
    ]
    letters = penstock("dead-letters", "list", "--json").data
    assert sorted((letter["topic"], letter["offset"], letter["stage"]) for letter in letters) == [
        (topics[0], 5, "decode"),
        (topics[0], 6, "decode"),
    ]
    assert {status["pipeline"] for status in penstock("status", "--json").data} >= {"gobblin"}


def compacted(file: Path) -> list[tuple[str, int]]:
    with sqlite3.connect(file) as database:
        query = "SELECT dataset, record_count FROM stg_kafka_gobblin_compaction ORDER BY record_count"
        return database.execute(query).fetchall()


def say(file: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(file) as database:
        database.execute(statement, values)


@pytest.mark.kafka
@pytest.mark.spark
def test_a_job_that_changes_in_its_database_is_restarted(
    kafka: KafkaBroker,
    topic: Callable[..., str],
    registries: tuple[DialectServer, DialectServer],
    tmp_path: Path,
) -> None:
    first, second = topic(), topic()
    file = tmp_path / "wh.db"
    target = Target(f"sqlite:///{file}")
    create_tables(target)
    target.close()
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=kafka.bootstrap))
    uuid = bytes.fromhex(UUID)
    produce(client, [NewRecord(name, framed(completed(n), uuid), b"k") for n, name in ((1, first), (2, second))])
    say(
        file,
        "INSERT INTO wh_etl_job (wh_etl_job_id, wh_etl_job_name, ref_id, ref_id_type)"
        " VALUES (7, 'KAFKA_CONSUMER_ETL', 3, 'APP')",
    )
    lists = {"kafka.topics": first, "kafka.processors": "gobblin-compaction", "kafka.db.tables": STAGING}
    more = {"group.id": f"{first}-wherehows", "schemaRegistryUrl": registries[1].url, "auto.offset.reset": "smallest"}
    for key, value in {**lists, **more}.items():
        say(
            file,
            "INSERT INTO wh_etl_job_property (wh_etl_job_name, ref_id, ref_id_type, property_name,"
            " property_value) VALUES ('KAFKA_CONSUMER_ETL', 3, 'APP', ?, ?)",
            key,
            value,
        )
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(f"dialect: wherehows\njobs: 7\nproperties: {{bootstrap.servers: '{kafka.bootstrap}'}}\n")
    environ = {"WHZ_DB_URL": f"jdbc:sqlite:{file}", "PENSTOCK_ENGINE_RELOAD": "1s"}
    with PenstockProcess(["run", jobs], folder=tmp_path / "run", env=environ) as running:
        until(lambda: compacted(file) == [("/data/1", 1)], 90, lambda: running.log)
        for key, value in {**lists, "kafka.topics": second}.items():
            say(
                file,
                "UPDATE wh_etl_job_property SET property_value = property_value || ? WHERE property_name = ?",
                f",{value}",
                key,
            )
        until(lambda: compacted(file) == [("/data/1", 1), ("/data/2", 2)], 60, lambda: running.log)
        assert "job has changed and was restarted" in running.log
        say(file, "UPDATE wh_etl_job SET is_active = 'N'")
        running.wait_log("job is gone and was stopped")
        assert running.get("/health/ready").json()["pipelines"] == []
        running.terminate()
        assert running.wait() == 0
