"""What SQLite cannot show: the tables, writers and merge on a database server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from penstock.tables import target as target_module
from penstock.tables.creation import chosen_tables, create_tables
from penstock.tables.errors import TargetUnavailable
from penstock.tables.load_status import SOURCES
from penstock.tables.lookup_tables import cfg_application, cfg_database, dir_external_user_info
from penstock.tables.merge import Merge
from penstock.tables.metadata_tables import dict_dataset
from penstock.tables.processor import Writer
from penstock.tables.registry import resolve_processor
from penstock.tables.sample_events import SAMPLES
from penstock.tables.samples import sample_record
from penstock.tables.staging import log_dataset_instance_load_status, stg_kafka_gobblin_compaction
from penstock.tables.target import Target
from tests.support.postgres import PostgresServer
from tests.unit.tables.conftest import Warehouse

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[Warehouse]:
    target = Target(postgres.create_database())
    yield Warehouse(target)
    target.close()


def test_told_twice_every_event_is_there_once(server: Warehouse) -> None:
    assert create_tables(server.target).created == []
    server.add(cfg_application, {"app_id": 1, "app_code": "sample-azkaban"})
    server.add(dir_external_user_info, {"app_id": 300, "user_id": "ada", "is_active": "Y"})
    counts = []
    for _ in range(2):
        for topic, sample in SAMPLES.items():
            processor = resolve_processor(sample.processor)()
            if isinstance(processor, Writer):
                for number in range(2):
                    server.write(processor, sample_record(topic, number))
        counts.append(server.counts())
    assert counts[0] == counts[1]
    written = {name for topic in SAMPLES.values() for name in getattr(resolve_processor(topic.processor), "tables", ())}
    assert set(counts[0]) == written | {"cfg_application", "dir_external_user_info"}


def test_rows_of_equal_identity_clash_also_without_a_partition(server: Warehouse) -> None:
    row = {"dataset": "/a", "cluster": "c", "log_event_time": 1}
    server.add(stg_kafka_gobblin_compaction, row, row | {"partition_name": ""}, row | {"job_context": "x"})
    with pytest.raises(sa.exc.IntegrityError):
        server.add(stg_kafka_gobblin_compaction, row)
    long = "/" + "/".join("abcdefgh" for _ in range(120))
    server.add(stg_kafka_gobblin_compaction, row | {"dataset": long, "partition_name": "p" * 1000})


def test_the_merge(server: Warehouse) -> None:
    server.add(dict_dataset, {"urn": "hdfs:///data/databases/Orders"})
    server.add(cfg_database, {"db_id": 4, "cluster": "hdfs://eat1-holdem.example.com"})
    tables = {table.name: table for table in chosen_tables(["staging"])}
    for topic, sample in SAMPLES.items():
        if sample.table in SOURCES:
            made = [resolve_processor(sample.processor)().process(sample_record(topic, n), topic) for n in range(20)]
            server.add(tables[sample.table], *(row | {"ps_ingested_at": 5} for row in made if isinstance(row, dict)))
    first, second = Merge(server.target, page=7).new_rows(), Merge(server.target, page=7).events_between(None, None)
    assert (first.rows_read, first.refused, second.rows_read) == (60, 0, 60)
    assert (second.inserted, second.updated) == (0, 0)
    rows = server.rows(log_dataset_instance_load_status, "dataset_native_name", "dataset_id", "db_id")
    assert len(rows) == first.inserted == 60
    assert ("/data/databases/Orders", 1, 4) in rows


def test_targets_of_a_process_share_the_connections_to_their_database(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    targets = [Target(url) for _ in range(300)]
    for target in targets:
        with target.transaction() as connection:
            connection.exec_driver_sql("SELECT 1")
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    with targets[0].transaction() as connection:
        assert connection.exec_driver_sql(sessions).scalar() == 1
    for target in targets[1:]:
        target.close()
        target.close()
    with targets[0].transaction() as connection:
        assert connection.exec_driver_sql(sessions).scalar() == 1, "who has gone takes nothing from the others"
    targets[0].close()


def test_who_is_frozen_within_a_transaction_keeps_no_locks(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "_FROZEN", 1)
    url = postgres.create_database()
    frozen, next_owner = Target(url), Target(url)
    with frozen.transaction() as connection:
        connection.exec_driver_sql("CREATE TABLE cursors AS SELECT 1 AS place")

    def freeze() -> None:
        with frozen.transaction() as held:
            held.exec_driver_sql("UPDATE cursors SET place = 2")
            # Nothing more comes from it: the next owner waits for the row, and gets it.
            with next_owner.transaction() as connection:
                connection.exec_driver_sql("UPDATE cursors SET place = 3")

    with pytest.raises(TargetUnavailable):
        freeze()
    with next_owner.transaction() as connection:
        assert connection.exec_driver_sql("SELECT place FROM cursors").scalar() == 3
    frozen.close()
    next_owner.close()


def test_hundreds_of_transactions_at_once_take_turns(postgres: PostgresServer) -> None:
    target = Target(postgres.create_database())
    most = 0

    def work(_: int) -> None:
        nonlocal most
        with target.transaction() as connection:
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            most = max(most, connection.exec_driver_sql(sessions).scalar() or 0)

    with ThreadPoolExecutor(150) as units:
        list(units.map(work, range(300)))
    assert 1 <= most <= 8
    target.close()
