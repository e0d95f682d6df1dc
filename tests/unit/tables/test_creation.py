"""The tables of WhereHows are made where they are missing, on each kind of database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from penstock.core.errors import ConfigError
from penstock.tables.creation import GROUPS, chosen_tables, create_tables
from penstock.tables.errors import TargetError, TargetUnavailable
from penstock.tables.staging import filled_columns, identity_of, required_columns
from penstock.tables.target import Target
from tests.support.ports import free_port

# Names and spellings of the tables that WhereHows made; programs of others read them.
ORIGINAL = {
    "stg_kafka_gobblin_compaction": "cluster dataset partition_type partition_name record_count late_record_count"
    " dedupe_status job_context project_name flow_name job_name flow_exec_id log_event_time",
    "stg_kafka_gobblin_lumos": "cluster dataset location partition_type partition_name subpartition_type"
    " subpartition_name max_data_date_epoch3 max_data_key record_count source_datacenter source_deployment_env"
    " source_database source_table job_context project_name flow_name job_name flow_exec_id log_event_time",
    "stg_kafka_gobblin_distcp": "cluster dataset partition_type partition_name upsteam_timestamp origin_timestamp"
    " source_path target_path job_context project_name flow_name job_name flow_exec_id log_event_time",
    "stg_kafka_metastore_audit": "server instance app_name event_name event_type log_event_time metastore_thrift_uri"
    " metastore_version is_successful is_data_deleted db_name table_name time_partition location owner create_time"
    " last_access_time old_info new_info",
    "log_dataset_instance_load_status": "dataset_id db_id dataset_type dataset_native_name operation_type"
    " partition_grain partition_expr data_time_expr data_time_epoch record_count size_in_byte log_time_epoch"
    " ref_dataset_type ref_db_id ref_uri last_modified",
}
ADDED = ["ps_topic", "ps_partition", "ps_offset", "ps_ingested_at", "ps_notes"]


@pytest.mark.parametrize("name", ORIGINAL)
def test_names_and_spellings_are_the_original_s(name: str) -> None:
    [table] = chosen_tables([name])
    columns = [column.name for column in table.columns]
    assert columns == ORIGINAL[name].split() + (ADDED if name.startswith("stg_") else [])


def test_what_tells_rows_apart() -> None:
    event = ("dataset", "cluster", "log_event_time", "job_context", "partition_name")
    assert identity_of("stg_kafka_gobblin_compaction") == identity_of("stg_kafka_gobblin_distcp") == event
    assert identity_of("wh.stg_gobblin_tracking_lumos") == (*event, "subpartition_name")
    assert identity_of("stg_metastore_audit") == identity_of("stg_kafka_metastore_audit")
    assert identity_of("orders") is None


def test_what_must_have_a_value() -> None:
    [table] = chosen_tables(["stg_kafka_gobblin_distcp"])
    assert required_columns(table) == ("cluster", "dataset", "log_event_time")
    assert filled_columns(table) == tuple(ORIGINAL[table.name].split())


@pytest.mark.parametrize("dialect", [mysql.dialect, postgresql.dialect, sqlite.dialect])
def test_every_statement_can_be_written_for_every_database(dialect: Any) -> None:
    for table in chosen_tables():
        CreateTable(table).compile(dialect=dialect())
        for index in table.indexes:
            CreateIndex(index).compile(dialect=dialect())


def test_mysql_s_keys_are_short_enough() -> None:
    """InnoDB takes 3,072 bytes of a key, four for each character."""
    for table in chosen_tables():
        keys = [list(table.primary_key.columns)]
        keys += [list(each.columns) for each in table.constraints if isinstance(each, sa.UniqueConstraint)]
        # The unique key of staging tables is another one there, and a prefix is said where a text is indexed.
        keys += [list(i.columns) for i in table.indexes if not i.name.startswith("uq_stg") and not i.kwargs]  # type: ignore[union-attr]
        for key in keys:
            sizes = [column.type.dialect_impl(mysql.dialect()) for column in key]
            assert sum(4 * size.length if isinstance(size, sa.String) else 8 for size in sizes) <= 3072, table.name


def test_what_is_there_stays(tmp_path: Path) -> None:
    target = Target(f"sqlite:///{tmp_path}/wh.db")
    try:
        with target.transaction() as connection:
            connection.exec_driver_sql("CREATE TABLE cfg_cluster (mine INTEGER)")
        done = create_tables(target, ["cfg_cluster", "staging", "stg_kafka_gobblin_lumos"])
        assert done.existing == ["cfg_cluster"]
        assert done.created == list(GROUPS["staging"])
        again = create_tables(target)
        assert set(again.existing) >= {"cfg_cluster", *GROUPS["staging"]}
        assert create_tables(target).created == []
        found = target.inspect("cfg_cluster")
        assert found is not None
        assert list(found.c.keys()) == ["mine"]
    finally:
        target.close()


def test_a_name_that_is_none_is_said() -> None:
    with pytest.raises(ConfigError, match="did you mean `stg_kafka_gobblin_lumos`"):
        chosen_tables(["stg_kafka_gobblin_lumo"])


def test_a_database_that_is_away_or_refuses_is_said(tmp_path: Path) -> None:
    away = Target(f"postgresql://postgres@127.0.0.1:{free_port()}/wh")
    with pytest.raises(TargetUnavailable):
        create_tables(away)
    away.close()
    target = Target(f"sqlite:///{tmp_path}/wh.db")
    with target.transaction() as connection:
        connection.exec_driver_sql("CREATE VIEW stg_kafka_gobblin_lumos AS SELECT 1")
    with pytest.raises(TargetError, match="stg_kafka_gobblin_lumos cannot be made"):
        create_tables(target, ["staging"])
    target.close()
