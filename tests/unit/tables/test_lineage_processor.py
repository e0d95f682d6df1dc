"""Executions of jobs, with what they read and wrote."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tables.lookup_tables import cfg_application, dataset_partition_layout_pattern, filename_pattern
from penstock.tables.metadata_tables import job_execution, job_execution_data_lineage
from penstock.tables.processor import BadEvent
from penstock.tables.processors.lineage import LineageProcessor
from tests.unit.tables.conftest import NOW, Warehouse

EXECUTION: dict[str, Any] = {
    "name": "load",
    "definitionId": 5,
    "executionId": 50,
    "executionGuid": "guid",
    "topLevelFlowName": "flow",
    "flowDefinitionId": 6,
    "flowExecutionId": 60,
    "attempt": 1,
    "startTime": 1_478_000_000_999,
    "endTime": 1_478_000_100_000,
    "state": "SUCCEEDED",
}
LINES = ("srl_no", "source_target_type", "abstracted_object_name", "partition_start", "partition_end")


def dataset(urn: str | None, **given: Any) -> dict[str, Any]:
    return {"datasetUrn": urn, "operation": "read"} | given


def event(inputs: list[Any] | None, outputs: list[Any] | None = None, **execution: Any) -> dict[str, Any]:
    return {
        "application": {"type": "AZKABAN", "name": "azkaban"},
        "jobExecution": EXECUTION | execution,
        "inputDatasetList": inputs,
        "outputDatasetList": [] if outputs is None else outputs,
    }


@pytest.fixture
def known(warehouse: Warehouse) -> Warehouse:
    warehouse.add(cfg_application, {"app_id": 3, "app_code": "azkaban"})
    return warehouse


def test_an_execution_and_its_lines(known: Warehouse) -> None:
    inputs = [dataset("hdfs://host:9000/data/in")]
    outputs = [dataset(None, datasetProperties={"uri": "hive:///db.table"}, operation="write")]
    known.write(LineageProcessor(), event(inputs, outputs))
    [row] = known.rows(job_execution)
    assert {name: value for name, value in row.items() if value is not None} == {
        "app_id": 3,
        "job_name": "load",
        "job_id": 5,
        "job_exec_id": 50,
        "job_exec_uuid": "guid",
        "flow_id": 6,
        "flow_exec_id": 60,
        "attempt_id": 1,
        "start_time": 1478000000,
        "end_time": 1478000100,
        "job_exec_status": "SUCCEEDED",
        "created_time": NOW,
    }
    first, second = known.rows(job_execution_data_lineage)
    assert {name: value for name, value in first.items() if value is not None} == {
        "app_id": 3,
        "flow_exec_id": 60,
        "job_exec_id": 50,
        "job_exec_uuid": "guid",
        "job_name": "load",
        "job_start_unixtime": 1478000000,
        "job_finished_unixtime": 1478000100,
        "abstracted_object_name": "/data/in",
        "full_object_name": "hdfs://host:9000/data/in",
        "source_target_type": "source",
        "srl_no": 0,
        "operation": "read",
        "flow_path": "flow",
        "created_date": NOW,
    }
    assert (second["srl_no"], second["source_target_type"], second["operation"]) == (1, "target", "write")
    assert (second["abstracted_object_name"], second["full_object_name"]) == ("/db/table", "hive:///db.table")


@pytest.mark.parametrize(
    ("urn", "abstracted"),
    [
        ("dalids:///db.table", "/db/table"),
        ("hive:///cluster/db/table", "/db/table"),  # greedy, as in Java: what is optional takes what it can
        ("hdfs://host:9000/data/x", "/data/x"),
        ("hdfs://host/data/x", "hdfs://host/data/x"),
        ("tcp://host:12345/topic", "topic"),
        ("/data/x", "/data/x"),
    ],
)
def test_names_are_brought_to_one_form(known: Warehouse, urn: str, abstracted: str) -> None:
    known.write(LineageProcessor(), event([dataset(urn)]))
    [found] = known.rows(job_execution_data_lineage, "abstracted_object_name")
    assert found == abstracted


def test_patterns_of_the_tables_find_dataset_and_partition(known: Warehouse) -> None:
    known.add(
        filename_pattern,
        {"filename_pattern_id": 1, "regex": "(.*)/part-[0-9]+"},
        {"filename_pattern_id": 2, "regex": "(("},
    )
    layout = {"leading_path_index": 1, "partition_index": 2, "partition_pattern_group": "daily"}
    known.add(
        dataset_partition_layout_pattern,
        layout | {"layout_id": 9, "sort_id": 2, "regex": r"(.*)/(\d{4}/\d\d/\d\d)"},
        layout | {"layout_id": 8, "sort_id": 1, "regex": r"(/first/.*)/daily/(\d{4}/\d\d/\d\d)"},
        layout | {"layout_id": 7, "sort_id": 0, "regex": r"(.*)", "partition_index": 5},
    )
    items = [
        dataset("/second/x/2016/11/01/part-0"),
        dataset("/first/x/daily/2016/11/02"),
        dataset(
            "/second/y/2016/11/03",
            partition={"minPartitionValue": "a", "maxPartitionValue": "b", "partitionType": "range"},
        ),
    ]
    known.write(LineageProcessor(), event(items))
    columns = ("abstracted_object_name", "layout_id", "partition_start", "partition_end", "partition_type")
    assert known.rows(job_execution_data_lineage, *columns) == [
        ("/first/x", 8, "2016/11/02", "2016/11/02", "daily"),
        ("/second/x", 9, "2016/11/01", "2016/11/01", "daily"),
        ("/second/y", 9, "a", "b", "range"),
    ]


def test_lines_of_one_object_are_merged_and_numbered_in_order(known: Warehouse) -> None:
    def part(urn: str, start: str | None, end: str | None) -> dict[str, Any]:
        return dataset(urn, partition={"minPartitionValue": start, "maxPartitionValue": end, "partitionType": "x"})

    inputs = [
        part("/b", "3", "5"),
        part("/a", None, "1"),
        part("/b", "2", "4"),
        part("/b", None, None),
        dataset("/tmp/x"),  # noqa: S108 - the name of a dataset
        dataset("/temp/y"),
        dataset(None),
    ]
    known.write(LineageProcessor(), event(inputs, [part("/b", "9", None)]))
    assert known.rows(job_execution_data_lineage, *LINES) == [
        (0, "source", "/a", None, "1"),
        (1, "source", "/b", "2", "5"),
        (2, "target", "/b", "9", None),
    ]


def test_told_again_with_fewer_lines_only_those_stay(known: Warehouse) -> None:
    writer = LineageProcessor()
    known.write(writer, event([dataset("/a"), dataset("/b")], [dataset("/c")], endTime=None))
    assert known.rows(job_execution, "end_time") == [None]
    assert set(known.rows(job_execution_data_lineage, "job_finished_unixtime")) == {0}
    for _ in range(2):
        known.write(writer, event([dataset("/b")]))
    assert known.rows(job_execution_data_lineage, "srl_no", "abstracted_object_name") == [(0, "/b")]
    assert known.rows(job_execution, "end_time") == [1478000100]


def test_ids_that_are_missing_are_zero(known: Warehouse) -> None:
    nothing = dict.fromkeys(("definitionId", "executionId", "flowDefinitionId", "flowExecutionId", "attempt"))
    known.write(LineageProcessor(), event([dataset("/a")], **nothing))
    assert known.rows(job_execution, "job_id", "job_exec_id", "flow_id", "flow_exec_id") == [(0, 0, 0, None)]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (event([]) | {"application": None}, "no `application`"),
        (event([]) | {"application": {"name": None}}, "`application` has no name"),
        (event([]) | {"application": {"name": "oozie"}}, "`oozie` is no application"),
        (event([]) | {"jobExecution": None}, "no `jobExecution`"),
        (event(None), "no `inputDatasetList`"),
        (event([]) | {"outputDatasetList": None}, "no `outputDatasetList`"),
        (event([], startTime=None), "no `startTime`"),
        (event(["x"]), "`inputDatasetList` holds something"),
    ],
)
def test_what_cannot_be_stored_leaves_nothing_behind(known: Warehouse, record: dict[str, Any], words: str) -> None:
    with pytest.raises(BadEvent) as refused:
        known.write(LineageProcessor(), record)
    assert words in str(refused.value)
    assert known.counts() == {"cfg_application": 1}


def test_an_unknown_application_can_be_added_and_the_event_told_again(warehouse: Warehouse) -> None:
    writer = LineageProcessor()
    with pytest.raises(BadEvent, match="cfg_application"):
        warehouse.write(writer, event([dataset("/a")]))
    warehouse.add(cfg_application, {"app_id": 3, "app_code": "azkaban"})
    warehouse.write(writer, event([dataset("/a")]))
    assert warehouse.rows(job_execution, "app_id") == [3]


def test_a_tombstone_is_nothing_to_store(known: Warehouse) -> None:
    known.write(LineageProcessor(), None)
    assert known.counts() == {"cfg_application": 1}
