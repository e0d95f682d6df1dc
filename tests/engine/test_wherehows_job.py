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
from tests.support.kafka import KafkaBroker

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
