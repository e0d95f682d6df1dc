"""Metastore audit events become rows."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tables.clusters import Cluster, Clusters
from penstock.tables.processor import BadEvent, ProcessorSettings
from penstock.tables.processors.metastore import MetastoreProcessor

HEADER = {"time": 1, "server": "meta-holdem-01", "instance": "i1", "appName": "hive", "messageId": b"0" * 16}
TABLE = {"tableName": "t", "dbName": "d", "owner": "me", "createTime": 5, "lastAccessTime": 6, "location": "/l"}
PARTITION = {"values": ["2016", "x"], "tableName": "t", "dbName": "d", "createTime": 7, "lastAccessTime": 8}


def content(kind: str, **given: Any) -> dict[str, Any]:
    return {"eventType": kind, "timestamp": 99, "isSuccessful": True, "isDataDeleted": False} | given


def processed(record: dict[str, Any]) -> Any:
    processor = MetastoreProcessor()
    processor.configure(ProcessorSettings(clusters=Clusters([Cluster("holdem", "h")])))
    return processor.process(record, "t")


def test_a_table() -> None:
    said = content("ALTER_TABLE", newTable=TABLE, oldTable=TABLE | {"owner": "old"}, metastoreThriftUri="thrift://x")
    row = processed({"auditHeader": HEADER, "metastoreTableAuditContent": said | {"metastoreVersion": "1.2"}})
    assert row == {
        "server": "holdem",
        "instance": "i1",
        "app_name": "hive",
        "event_name": "MetastoreTableAuditEvent",
        "event_type": "ALTER_TABLE",
        "log_event_time": 99,
        "metastore_thrift_uri": "thrift://x",
        "metastore_version": "1.2",
        "is_successful": "true",
        "is_data_deleted": "false",
        "db_name": "d",
        "table_name": "t",
        "time_partition": "?",
        "location": "/l",
        "owner": "me",
        "create_time": 5,
        "last_access_time": 6,
    }
    assert set(row) == set(MetastoreProcessor.columns)


def test_a_partition_whose_new_state_is_absent() -> None:
    said = content("DROP_PARTITION", oldPartition=PARTITION, newPartition=None, metastoreVersion="null")
    header = HEADER | {"instance": None}
    row = processed({"auditHeader": header, "metastorePartitionAuditContent": said, "metastoreTableAuditContent": None})
    assert (row["event_name"], row["time_partition"]) == ("MetastorePartitionAuditEvent", "[2016, x]")
    assert (row["instance"], row["metastore_thrift_uri"]) == ("null", "null")
    assert (row["metastore_version"], row["owner"], row["location"]) == (None, None, None)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"auditHeader": HEADER}, "neither `metastoreTableAuditContent` nor"),
        (
            {"auditHeader": HEADER, "metastoreTableAuditContent": content("DROP_TABLE")},
            "neither `newTable` nor `oldTable`",
        ),
        ({"metastoreTableAuditContent": content("DROP_TABLE", newTable=TABLE)}, "`auditHeader` is not a record"),
        (
            {"auditHeader": {}, "metastoreTableAuditContent": {"newTable": {}}},
            "no value for server, event_type, log_event_time, db_name, table_name",
        ),
    ],
)
def test_what_cannot_be_stored_is_a_dead_letter(record: dict[str, Any], words: str) -> None:
    with pytest.raises(BadEvent) as refused:
        processed(record)
    assert words in str(refused.value)


def test_a_tombstone_is_nothing_to_store() -> None:
    assert MetastoreProcessor().process(None, "t") is None
