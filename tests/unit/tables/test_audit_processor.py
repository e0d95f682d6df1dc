"""Audit events: owners found by auditors, files that were classified."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.tables.java_values import NotANumber
from penstock.tables.lookup_tables import dir_external_group_user_map, dir_external_user_info
from penstock.tables.metadata_tables import dataset_owner, dict_dataset, stg_dataset_owner_unmatched
from penstock.tables.processor import BadEvent
from penstock.tables.processors.audit import AuditProcessor
from tests.unit.tables.conftest import NOW, Warehouse

AUDITORS = ["DaliLimitedRetentionAuditor", "DaliAutoPurgeAuditor", "DsIgnoreIDPCAuditor"]


def event(name: str, **metadata: Any) -> dict[str, Any]:
    return {"timestamp": 1_478_000_000_123, "namespace": None, "name": name, "metadata": metadata}


def known(warehouse: Warehouse) -> None:
    warehouse.add(dict_dataset, {"id": 7, "urn": "hdfs:///data/a"})
    warehouse.add(
        dir_external_user_info,
        {"app_id": 300, "user_id": "ada", "is_active": "Y"},
        {"app_id": 300, "user_id": "bob", "is_active": "N"},
    )
    warehouse.add(
        dir_external_group_user_map, {"app_id": 301, "group_id": "crew", "user_app_id": 300, "user_id": "ada"}
    )


@pytest.mark.parametrize("name", AUDITORS)
def test_owners_are_stored_with_their_accounts(warehouse: Warehouse, name: str) -> None:
    known(warehouse)
    owners = "urn:li:corpuser:ada,urn:li:GridUser:crew, urn:li:corpuser:nobody,bob"
    warehouse.write(AuditProcessor(), event(name, DatasetPath="data/a", OwnerURNs=owners, HasError="false"))
    columns = ("owner_id", "app_id", "namespace", "owner_id_type", "is_group", "is_active", "owner_source", "sort_id")
    assert warehouse.rows(dataset_owner, *columns) == [
        ("ada", 300, "urn:li:corpuser", "PERSON", "N", "Y", "IDPC", 0),
        ("crew", 301, "urn:li:GridUser", "GROUP", "Y", "Y", "IDPC", 1),
        ("bob", 300, "", "PERSON", "N", "N", "IDPC", 2),
    ]
    times = ("dataset_id", "dataset_urn", "source_time", "created_time", "modified_time")
    assert set(warehouse.rows(dataset_owner, *times)) == {(7, "hdfs:///data/a", 1478000000, 1478000000, NOW)}
    assert warehouse.rows(stg_dataset_owner_unmatched, "owner_id", "db_name", "app_id") == [("nobody", "N/A", 0)]
    warehouse.write(AuditProcessor(), event(name, DatasetPath="/data/a", OwnerURNs=owners))
    assert len(warehouse.rows(dataset_owner)) == 3, "told again, nothing piles up"
    assert len(warehouse.rows(stg_dataset_owner_unmatched)) == 1


def test_owners_that_the_source_no_longer_names_go_and_others_stay(warehouse: Warehouse) -> None:
    known(warehouse)
    same = {"dataset_id": 7, "dataset_urn": "hdfs:///data/a", "app_id": 300}
    warehouse.add(
        dataset_owner,
        same | {"owner_id": "gone", "owner_source": "idpc", "sort_id": 0},
        same | {"owner_id": "stays", "owner_source": "IDPC,SCM", "sort_id": 1},
        same | {"owner_id": "none", "owner_source": None, "sort_id": 2},
    )
    warehouse.write(AuditProcessor(), event(AUDITORS[0], DatasetPath="/data/a", OwnerURNs="urn:li:corpuser:ada"))
    assert warehouse.rows(dataset_owner, "owner_id", "sort_id") == [("ada", 0), ("stays", 1), ("none", 2)]


@pytest.mark.parametrize(
    ("record", "settings"),
    [
        (None, {}),
        (event("Other", DatasetPath="/data/a", OwnerURNs="ada"), {}),
        (event(AUDITORS[0], DatasetPath="/data/a", OwnerURNs="ada", HasError="TRUE"), {}),
        (event(AUDITORS[0], DatasetPath="/data/unknown", OwnerURNs="ada"), {}),
        (event(AUDITORS[0], DatasetPath="/data/a", OwnerURNs="ada"), {"owners": False}),
        (event("MetadataFileClassifier"), {}),
        (event("MetadataFileClassifier", dataset=""), {}),
        (event("MetadataFileClassifier", dataset="/data/_distcp_x/a"), {}),
        (event("MetadataFileClassifier", dataset="/data/output/a"), {}),
        (event("MetadataFileClassifier", dataset="/data/a_tmp"), {}),
        (event("MetadataFileClassifier", dataset="/staging/a"), {}),
    ],
)
def test_what_is_not_to_be_stored(
    warehouse: Warehouse, record: dict[str, Any] | None, settings: dict[str, Any]
) -> None:
    known(warehouse)
    before = warehouse.counts()
    warehouse.write(AuditProcessor(), record, **settings)
    assert warehouse.counts() == before


@pytest.mark.parametrize(
    ("given", "missing"), [({"OwnerURNs": "a"}, "DatasetPath"), ({"DatasetPath": "/a"}, "OwnerURNs")]
)
def test_what_is_missing_is_named(warehouse: Warehouse, given: dict[str, str], missing: str) -> None:
    with pytest.raises(BadEvent, match=missing):
        warehouse.write(AuditProcessor(), event(AUDITORS[0], **given))


def test_a_classified_file(warehouse: Warehouse) -> None:
    record = event(
        "MetadataFileClassifier",
        dataset="/data/tracking/clicks",
        schema='{"type": "record"}',
        modificationTime="1478000000999",
        owner="o",
        group="g",
        permission="rwx",
        codec="avro",
        storage="s",
        cluster="c",
        abstractPath="/abs",
    )
    warehouse.write(AuditProcessor(), record)
    [row] = warehouse.rows(dict_dataset)
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": 1,
        "urn": "hdfs:///data/tracking/clicks",
        "name": "/tracking/clicks",
        "schema": '{"type": "record"}',
        "schema_type": "JSON",
        "source": "Hdfs",
        "dataset_type": "hdfs",
        "is_active": True,
        "source_modified_time": 1478000000,
        "location_prefix": "/data/tracking",
        "parent_name": "data",
        "properties": row["properties"],
        "created_time": NOW,
        "modified_time": NOW,
    }
    assert json.loads(row["properties"]) == {
        "owner": "o",
        "group": "g",
        "file_permission": "rwx",
        "codec": "avro",
        "storage": "s",
        "cluster": "c",
        "abstract_path": "/abs",
    }
    warehouse.write(AuditProcessor(), event("MetadataFileClassifier", dataset="/data/tracking/clicks", schema="new"))
    assert warehouse.rows(dict_dataset, "id", "schema", "source_modified_time") == [(1, "new", None)]


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("/data/external/gobblin/a/b", "a/b"),
        ("/data/databases/X/Y", "databases"),
        ("/jobs_data/tracking/x", "jobs_data"),
        ("/data/derived/x", "data"),
        ("/data/service/x", "data"),
        ("/user/me/x", "user"),
        ("/alone", ""),
    ],
)
def test_the_parent_of_a_file(warehouse: Warehouse, path: str, parent: str) -> None:
    warehouse.write(AuditProcessor(), event("MetadataFileClassifier", dataset=path))
    assert warehouse.rows(dict_dataset, "parent_name") == [parent]
    warehouse.write(AuditProcessor(), event("MetadataFileClassifier", dataset=path), values="v0.2.1")
    assert warehouse.rows(dict_dataset, "parent_name") == [path if parent else ""]


def test_a_time_that_is_none_is_a_dead_letter(warehouse: Warehouse) -> None:
    with pytest.raises(NotANumber, match="modificationTime"):
        warehouse.write(AuditProcessor(), event("MetadataFileClassifier", dataset="/a/b", modificationTime="soon"))
    assert warehouse.counts() == {}


def test_a_table_without_the_column_of_a_later_version_is_written(warehouse: Warehouse) -> None:
    with warehouse.target.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE dict_dataset DROP COLUMN is_active")
    warehouse.write(AuditProcessor(), event("MetadataFileClassifier", dataset="/a/b"))
    with warehouse.target.transaction() as connection:
        assert connection.exec_driver_sql("SELECT urn FROM dict_dataset").scalars().all() == ["hdfs:///a/b"]
