"""Compaction, distcp and lumos events become the rows that the tables of WhereHows held."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.tables.clusters import Cluster, Clusters
from penstock.tables.expressions import Expressions
from penstock.tables.processor import BadEvent, Processor, ProcessorSettings
from penstock.tables.processors.compaction import CompactionProcessor
from penstock.tables.processors.distcp import DistcpProcessor
from penstock.tables.processors.lumos import LumosProcessor

AT = 1_478_000_000_123
JOB = {"azkabanProjectName": "proj", "azkabanFlowId": "flow", "azkabanJobId": "job", "azkabanExecId": "4711"}
JOB_COLUMNS = {"project_name": "proj", "flow_name": "flow", "job_name": "job", "flow_exec_id": 4711}
CLUSTER = {"clusterIdentifier": "hdfs://ltx1-holdem.example"}


def event(name: str, namespace: str | None, **metadata: Any) -> dict[str, Any]:
    return {"timestamp": AT, "namespace": namespace, "name": name, "metadata": JOB | CLUSTER | metadata}


def configured(processor: Processor, **settings: Any) -> Processor:
    clusters = Clusters([Cluster("holdem", "ho"), Cluster("ltx1-holdem", "lh")])
    processor.configure(ProcessorSettings(**({"clusters": clusters} | settings)))
    return processor


def row_of(processor: Processor, record: dict[str, Any], **settings: Any) -> dict[str, Any] | None:
    made = configured(processor, **settings).process(record, "topic")
    assert made is None or isinstance(made, dict)
    if made is not None:
        assert set(made) == {*processor.columns, "ps_notes"}
    return made


def compaction(name: str, **metadata: Any) -> dict[str, Any]:
    return event(name, "compaction.tracking.events", **metadata)


def test_a_completed_compaction() -> None:
    record = compaction(
        "CompactionCompleted", datasetUrn="/data/a", partition="daily/2016/11/01", recordCount="12", dedupeStatus="D"
    )
    assert row_of(CompactionProcessor(), record) == JOB_COLUMNS | {
        "cluster": "ltx1-holdem",
        "dataset": "/data/a",
        "partition_type": None,
        "partition_name": "daily/2016/11/01",
        "record_count": 12,
        "late_record_count": 0,
        "dedupe_status": "D",
        "job_context": "Gobblin:CompactionCompleted",
        "log_event_time": AT,
        "ps_notes": None,
    }


def test_counted_records() -> None:
    path = "/feed/web/click-log/weekly/7/w31"
    record = compaction(
        "CompactionRecordCounts", DatasetOutputPath=path, RegularRecordCount="12", LateRecordCount="3", datasetUrn="x"
    )
    row = row_of(CompactionProcessor(), record)
    assert row is not None
    assert (row["dataset"], row["partition_type"], row["partition_name"]) == ("/feed/web/click-log", "weekly", "7/w31")
    assert (row["record_count"], row["late_record_count"], row["dedupe_status"]) == (12, 3, None)
    assert row["job_context"] == "Gobblin:CompactionRecordCounts"


@pytest.mark.parametrize(
    "path", ["/feed/web/daily/2016", "/a/b/c/d/daily/2016", "/a/b/c/daily/x1", "a/b/c/daily/1", None]
)
def test_a_path_of_another_depth_is_a_dead_letter_that_names_the_column(path: str | None) -> None:
    given = {} if path is None else {"DatasetOutputPath": path}
    with pytest.raises(BadEvent, match="no value for dataset") as refused:
        row_of(CompactionProcessor(), compaction("CompactionRecordCounts", **given))
    assert refused.value.received == ["dataset"]


def test_the_path_expression_is_the_job_s() -> None:
    record = compaction("CompactionRecordCounts", DatasetOutputPath="/warehouse/orders/daily/2016/11/01")
    expressions = Expressions.of({"compaction_path": r"^(/\w+/\w+)/(\w+)/(\d+.*)$"})
    row = row_of(CompactionProcessor(), record, expressions=expressions)
    assert row is not None
    assert (row["dataset"], row["partition_type"], row["partition_name"]) == (
        "/warehouse/orders",
        "daily",
        "2016/11/01",
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"compaction_pat": "x"}, "did you mean `compaction_path`"),
        ({"compaction_path": "(a)(b)"}, "3 groups are wanted"),
        ({"compaction_path": "(a"}, "`compaction_path`: this regular expression cannot be used"),
        ({"audit_skip": [1]}, "`audit_skip`: a regular expression is wanted"),
    ],
)
def test_expressions_that_cannot_be_used_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=r".") as refused:
        Expressions.of(given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "record",
    [
        None,
        event("CompactionCompleted", "other"),
        event("CompactionCompleted", None),
        compaction("Other"),
        {"name": None},
    ],
)
def test_other_events_are_nothing_to_store(record: dict[str, Any] | None) -> None:
    assert CompactionProcessor().process(record, "t") is None


@pytest.mark.parametrize("written", ["", "x", " 1", "1.5", "9223372036854775808", None])
def test_numbers_that_are_none_become_zero_and_are_noted(written: str | None) -> None:
    exec_id = {} if written is None else {"azkabanExecId": written}
    record = compaction("CompactionCompleted", datasetUrn="/d", **exec_id)
    if written is None:
        del record["metadata"]["azkabanExecId"]
    else:
        record["metadata"]["recordCount"] = written
    row = row_of(CompactionProcessor(), record)
    assert row is not None
    assert (row["flow_exec_id"], row["record_count"]) == (0, 0)
    assert row["ps_notes"] == "flow_exec_id, record_count"


def test_an_exec_id_has_32_bits_and_a_real_zero_is_not_noted() -> None:
    row = row_of(
        CompactionProcessor(),
        compaction("CompactionCompleted", datasetUrn="/d", azkabanExecId="2147483648", recordCount="0"),
    )
    assert row is not None
    assert (row["flow_exec_id"], row["record_count"], row["ps_notes"]) == (0, 0, "flow_exec_id")


def test_null_in_the_metadata_is_the_word_and_a_missing_key_is_null() -> None:
    row = row_of(CompactionProcessor(), compaction("CompactionCompleted", datasetUrn=None, recordCount="1"))
    assert row is not None
    assert (row["dataset"], row["dedupe_status"], row["partition_name"]) == ("null", None, None)


def test_what_is_missing_is_named_all_at_once() -> None:
    with pytest.raises(BadEvent) as refused:
        CompactionProcessor().process({"namespace": "compaction.tracking.events", "name": "CompactionCompleted"}, "t")
    assert refused.value.received == ["cluster", "dataset", "log_event_time"]


# -- distcp --------------------------------------------------------------------------------


def test_a_published_copy() -> None:
    record = event(
        "DatasetPublished",
        "gobblin.copy.CopyDataPublisher",
        datasetUrn="/data/a",
        partition="p",
        upstreamTimestamp="5",
        originTimestamp="x",
        SourcePath="/s",
        TargetPath="/t",
    )
    assert row_of(DistcpProcessor(), record) == JOB_COLUMNS | {
        "cluster": "ltx1-holdem",
        "dataset": "/data/a",
        "partition_type": None,
        "partition_name": "p",
        "upsteam_timestamp": 5,
        "origin_timestamp": 0,
        "source_path": "/s",
        "target_path": "/t",
        "job_context": "DistcpNG:DatasetPublished",
        "log_event_time": AT,
        "ps_notes": "origin_timestamp",
    }


@pytest.mark.parametrize(
    "record",
    [None, event("FilePublished", "gobblin.copy.CopyDataPublisher", datasetUrn="/d"), event("DatasetPublished", "x")],
)
def test_published_files_and_others_are_nothing_to_store(record: dict[str, Any] | None) -> None:
    assert DistcpProcessor().process(record, "t") is None


# -- lumos ---------------------------------------------------------------------------------


def lumos(name: str, **metadata: Any) -> dict[str, Any]:
    given = {"datasetUrn": "/d", "TargetDirectory": "/jobs/x/1478000000000-ps-1/", "partition": "1478000000000-ps-1"}
    return event(name, "anything", **(given | metadata))


def test_a_snapshot() -> None:
    record = lumos(
        "SnapshotPublished",
        Dropdate="1478000000001",
        recordCount="9",
        DatasourceColo="prod-lva1",
        Database="DB",
        Table="T",
    )
    assert row_of(LumosProcessor(), record) == JOB_COLUMNS | {
        "cluster": "ltx1-holdem",
        "dataset": "/d",
        "location": "/jobs/x/1478000000000-ps-1/",
        "partition_type": "snapshot",
        "partition_name": "1478000000000-ps-1",
        "subpartition_type": None,
        "subpartition_name": None,
        "max_data_date_epoch3": 1478000000001,
        "max_data_key": 0,
        "record_count": 9,
        "source_datacenter": "lva1",
        "source_deployment_env": "prod",
        "source_database": "DB",
        "source_table": "T",
        "job_context": "Lumos:SnapshotPublished",
        "log_event_time": AT,
        "ps_notes": None,
    }


def test_a_delta() -> None:
    record = lumos(
        "DeltaPublished", TargetDirectory="/a/1-x-2/b/1470000000000-ps-1/_delta/981-scn-44", partition="981-scn-44"
    )
    row = row_of(LumosProcessor(), record)
    assert row is not None
    assert (row["partition_type"], row["partition_name"]) == ("snapshot", "1470000000000-ps-1")  # the last one
    assert (row["subpartition_type"], row["subpartition_name"]) == ("_delta", "981-scn-44")
    assert (row["max_data_date_epoch3"], row["max_data_key"]) == (981, 981)
    assert row["job_context"] == "Lumos:DeltaPublished"


@pytest.mark.parametrize(
    ("name", "dropdate", "epoch"),
    [
        ("SnapshotPublished", "1460000000000", 1460000000000),
        ("SnapshotPublished", "1459999999999", 1478000000000),  # of the directory
        ("SnapshotPublished", "x", 1478000000000),
        ("DeltaPublished", "0", 77),  # of the partition
    ],
)
def test_the_date_of_the_data(name: str, dropdate: str, epoch: int) -> None:
    partition = "77-scn-1" if name == "DeltaPublished" else "none"
    row = row_of(LumosProcessor(), lumos(name, Dropdate=dropdate, partition=partition))
    assert row is not None
    assert row["max_data_date_epoch3"] == epoch


@pytest.mark.parametrize(
    ("partition", "fixed", "original"),
    [
        ("1460000000-ps-1", 0, 0),
        ("1469999999999-ps-1", 0, 0),
        ("1478000000000-ps-1", 0, 1478000000000),  # July 2016 was the end for the original
        ("1750000000000-ps-1", 0, 1750000000000),
        ("21478000000000-ps-1", 21478000000000, 21478000000000),
        ("146000000-ps-1", 146000000, 146000000),
        ("981-scn-44", 981, 981),
        ("x1461234567-a-1", 0, 0),
        ("91461234567-a-1", 91461234567, 0),  # found in the middle of a longer number
        ("monday", 0, 0),
    ],
)
def test_a_partition_named_after_a_time_has_no_key(partition: str, fixed: int, original: int) -> None:
    record = lumos("SnapshotPublished", partition=partition)
    for values, key in (("fixed", fixed), ("v0.2.1", original)):
        row = row_of(LumosProcessor(), record, values=values)
        assert row is not None
        assert row["max_data_key"] == key


@pytest.mark.parametrize(
    ("place", "datacenter", "environment"),
    [("prod-lva1", "lva1", "prod"), ("a-b-c", "b", "a"), ("lva1", "lva1", None), (None, None, None)],
)
def test_where_the_data_comes_from(place: str | None, datacenter: str | None, environment: str | None) -> None:
    given = {} if place is None else {"DatasourceColo": place}
    row = row_of(LumosProcessor(), lumos("SnapshotPublished", **given))
    assert row is not None
    assert (row["source_datacenter"], row["source_deployment_env"]) == (datacenter, environment)


def test_a_delta_without_its_names_is_stored_with_nulls() -> None:
    record = lumos("DeltaPublished", TargetDirectory="/x")
    del record["metadata"]["partition"]
    row = row_of(LumosProcessor(), record)
    assert row is not None
    assert (row["partition_name"], row["subpartition_name"], row["max_data_key"]) == (None, None, 0)
    assert row["ps_notes"] == "max_data_date_epoch3, max_data_key, record_count"


def test_a_location_must_be_there() -> None:
    record = lumos("SnapshotPublished")
    del record["metadata"]["TargetDirectory"]
    with pytest.raises(BadEvent, match="no value for location"):
        row_of(LumosProcessor(), record)


@pytest.mark.parametrize("record", [None, event("SnapshotPublished", None), event("Other", "x")])
def test_without_a_namespace_or_name_there_is_nothing_to_store(record: dict[str, Any] | None) -> None:
    assert LumosProcessor().process(record, "t") is None
