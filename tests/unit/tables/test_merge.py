"""Staging rows become load statuses, whatever is merged first and however often."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.core.clock import Clock
from penstock.core.errors import ConfigError
from penstock.tables.errors import TargetError
from penstock.tables.load_status import date_in
from penstock.tables.lookup_tables import cfg_database
from penstock.tables.merge import Merge, runs
from penstock.tables.metadata_tables import dict_dataset
from penstock.tables.staging import log_dataset_instance_load_status as status
from penstock.tables.staging import stg_kafka_gobblin_compaction as compaction
from penstock.tables.staging import stg_kafka_gobblin_distcp as distcp
from penstock.tables.staging import stg_kafka_gobblin_lumos as lumos
from tests.unit.tables.conftest import NOW, Warehouse

AT = 1_478_000_000_123
CLOCK = Clock(time=lambda: NOW)


def row(**given: Any) -> dict[str, Any]:
    return {"dataset": "/data/a", "cluster": "holdem", "log_event_time": AT, "ps_ingested_at": AT} | given


def merge(warehouse: Warehouse, **options: Any) -> Merge:
    return Merge(warehouse.target, surroundings=CLOCK, **options)


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        ("daily/2016/11/01", 1477958400),
        ("2016-11-01", 1477958400),
        ("20161101", 1477958400),
        ("hourly/2016/11/01/13", 1478005200),
        ("datepartition=2016-11-01-13", 1478005200),
        ("2016-11-01T13:59", 1478005200),
        ("2016/11", None),
        ("2016/13/01", None),
        ("2016/02/30", None),
        ("1478000000000-ps-1", None),
        ("7/w31", None),
        ("", None),
        (None, None),
    ],
)
def test_dates_in_names(name: str | None, epoch: int | None) -> None:
    assert date_in(name) == epoch


def test_each_kind_of_row(warehouse: Warehouse) -> None:
    warehouse.add(dict_dataset, {"id": 5, "urn": "hdfs:///data/a"}, {"id": 6, "urn": "plain"})
    warehouse.add(cfg_database, {"db_id": 9, "cluster": "holdem"}, {"db_id": 8, "cluster": "holdem"})
    warehouse.add(
        compaction,
        row(partition_type="daily", partition_name="2016/11/01", record_count=10, late_record_count=2),
        row(dataset="plain", cluster="other", log_event_time=AT + 1000),
    )
    warehouse.add(
        lumos,
        row(location="/l", partition_name="1-x-1", max_data_date_epoch3=1_477_000_000_000, record_count=3),
        row(
            location="/l",
            partition_name="1-x-1",
            subpartition_type="_delta",
            subpartition_name="2-x-2",
            max_data_date_epoch3=None,
            dataset="/data/b",
        ),
    )
    warehouse.add(distcp, row(partition_name="x", target_path="/t"))
    done = merge(warehouse).new_rows()
    assert (done.rows_read, done.inserted, done.updated, done.refused) == (5, 5, 0, 0)
    columns = (
        "dataset_id", "db_id", "dataset_native_name", "operation_type", "partition_grain", "partition_expr",
        "data_time_epoch", "data_time_expr", "record_count", "log_time_epoch", "ref_uri",
    )  # fmt: skip
    assert sorted(warehouse.rows(status, *columns)) == sorted(
        [
            (
                5,
                8,
                "/data/a",
                "compact",
                "daily",
                "2016/11/01",
                1477958400,
                "2016-11-01 00:00:00",
                12,
                1478000000,
                None,
            ),
            (6, 0, "plain", "compact", "unknown", "", 1478000001, "2016-11-01 11:33:21", None, 1478000001, None),
            (5, 8, "/data/a", "load", "snapshot", "1-x-1", 1477000000, "2016-10-20 21:46:40", 3, 1478000000, "/l"),
            (0, 8, "/data/b", "load", "delta", "2-x-2", 1478000000, "2016-11-01 11:33:20", None, 1478000000, "/l"),
            (5, 8, "/data/a", "load", "unknown", "x", 1478000000, "2016-11-01 11:33:20", None, 1478000000, "/t"),
        ]
    )
    assert set(warehouse.rows(status, "dataset_type")) == {"hdfs"}


def test_told_again_nothing_changes_and_each_run_is_recorded(warehouse: Warehouse) -> None:
    warehouse.add(compaction, row(partition_name="2016/11/01", record_count=1))
    first, second = merge(warehouse).new_rows(), merge(warehouse).new_rows()
    assert (first.inserted, second.inserted, second.updated) == (1, 0, 0)
    assert second.ingested_from is not None
    third = merge(warehouse).events_between(None, None)
    assert (third.rows_read, third.inserted, third.updated) == (1, 0, 0)
    recorded = warehouse.rows(runs, "rows_read", "inserted", "ingested_to", "error")
    assert recorded == [(1, 1, AT, None), (1, 0, AT, None), (1, 0, AT, None)]


def test_only_what_is_new_is_read(warehouse: Warehouse) -> None:
    later = AT + 3_600_000
    warehouse.add(compaction, row(partition_name="a", ps_ingested_at=AT), row(partition_name="b", ps_ingested_at=later))
    assert merge(warehouse).new_rows().rows_read == 2
    warehouse.add(compaction, row(partition_name="late", log_event_time=5, ps_ingested_at=later + 1))
    done = merge(warehouse).new_rows()
    assert (done.rows_read, done.inserted, done.ingested_to) == (2, 1, later + 1), "the overlap is read again"


def test_a_merge_of_one_table_leaves_the_others_for_later(warehouse: Warehouse) -> None:
    warehouse.add(compaction, row(partition_name="a", ps_ingested_at=AT))
    warehouse.add(distcp, row(partition_name="b", ps_ingested_at=5))
    assert merge(warehouse, tables=[compaction.name]).new_rows().rows_read == 1
    assert merge(warehouse).new_rows().rows_read == 2


def test_a_range_takes_its_events_only(warehouse: Warehouse) -> None:
    warehouse.add(compaction, *(row(partition_name=f"p{n}", log_event_time=n * 1000) for n in range(10)))
    assert merge(warehouse).events_between(2000, 5000).rows_read == 3
    assert sorted(warehouse.rows(status, "partition_expr")) == ["p2", "p3", "p4"]


def test_a_dataset_that_becomes_known_is_not_there_twice(warehouse: Warehouse) -> None:
    warehouse.add(compaction, row(partition_name="p"), row(partition_name="q", dataset="/data/z"))
    merge(warehouse).new_rows()
    warehouse.add(dict_dataset, {"id": 5, "urn": "/data/a"})
    merge(warehouse).new_rows()
    assert sorted(warehouse.rows(status, "dataset_id", "partition_expr")) == [(0, "q"), (5, "p")]


def test_old_rows_that_were_merged_can_be_deleted(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.tables.merge._PRUNED", 2)
    warehouse.add(compaction, *(row(partition_name=f"p{n}", log_event_time=n, ps_ingested_at=n) for n in range(10)))
    assert merge(warehouse).prune(8) == 0, "nothing was merged yet"
    merge(warehouse).new_rows()
    assert merge(warehouse).prune(8) == 0, "the last ten minutes are looked at again"
    warehouse.add(compaction, row(partition_name="late", ps_ingested_at=600_005))
    merge(warehouse).new_rows()
    assert merge(warehouse).prune(8) == 6
    assert warehouse.rows(compaction, "log_event_time") == [6, 7, 8, 9, AT]
    assert len(warehouse.rows(status)) == 11


LOADS = st.lists(
    st.fixed_dictionaries(
        {
            "partition_name": st.sampled_from(["2016/11/01", "2016/11/02", None]),
            "log_event_time": st.integers(1000, 4000),
            "record_count": st.integers(0, 3),
            "table": st.sampled_from(["compaction", "distcp"]),
        }
    ),
    max_size=12,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LOADS, st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=4), st.integers(1, 4))
def test_the_outcome_does_not_depend_on_the_ranges(
    warehouse: Warehouse, loads: list[dict[str, Any]], ranges: list[tuple[int, int]], page: int
) -> None:
    with warehouse.target.transaction() as connection:
        for table in (compaction, distcp, status):
            connection.execute(sa.delete(table))
        for number, load in enumerate(loads):
            table = compaction if load["table"] == "compaction" else distcp
            names = [name for name in load if name in table.c]
            connection.execute(
                sa.insert(table).values(row(job_context=str(number), **{name: load[name] for name in names}))
            )
    for start, end in ranges:
        merge(warehouse, page=page).events_between(start, end)
    merge(warehouse, page=page).events_between(None, None)
    in_parts = warehouse.rows(status)
    with warehouse.target.transaction() as connection:
        connection.execute(sa.delete(status))
    done = merge(warehouse).events_between(None, None)
    assert done.rows_read == len(loads)
    assert sorted(map(str, warehouse.rows(status))) == sorted(map(str, in_parts))


def test_a_narrower_key_of_an_older_table_refuses_and_the_rest_is_merged(warehouse: Warehouse) -> None:
    with warehouse.target.transaction() as connection:
        connection.exec_driver_sql(
            f"CREATE UNIQUE INDEX narrow ON {status.name}"
            " (dataset_id, db_id, data_time_epoch, partition_grain, partition_expr)"
        )
    warehouse.add(
        compaction,
        row(partition_name="2016/11/01"),
        row(partition_name="2016/11/01", dataset="/data/b"),
        row(partition_name="2016/11/02", dataset="/data/b"),
    )
    done = merge(warehouse).new_rows()
    assert (done.rows_read, done.inserted, done.refused) == (3, 2, 1)


def test_tables_that_wherehows_made_are_merged_too(warehouse: Warehouse) -> None:
    with warehouse.target.transaction() as connection:
        connection.exec_driver_sql(f"DROP INDEX ix_{compaction.name}_ps_ingested_at")
        for name in ("ps_topic", "ps_partition", "ps_offset", "ps_ingested_at", "ps_notes"):
            connection.exec_driver_sql(f"ALTER TABLE {compaction.name} DROP COLUMN {name}")
        connection.execute(sa.insert(compaction).values(dataset="/a", cluster="c", log_event_time=5000))
    for _ in range(2):
        assert merge(warehouse).new_rows().rows_read == 1
    assert warehouse.rows(status, "dataset_native_name") == ["/a"]


def test_what_cannot_be_merged_is_said(warehouse: Warehouse) -> None:
    with pytest.raises(ConfigError, match="tells of no loads"):
        merge(warehouse, tables=["stg_kafka_metastore_audit"])
    with warehouse.target.transaction() as connection:
        status.drop(connection)
    with pytest.raises(TargetError, match="no table log_dataset_instance_load_status"):
        merge(warehouse).new_rows()
