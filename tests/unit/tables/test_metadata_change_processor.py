"""Metadata changes: all of an event is stored, or nothing of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.tables import metadata_tables as t
from penstock.tables.lookup_tables import dir_external_user_info
from penstock.tables.processor import BadEvent
from penstock.tables.processors.datasets import candidates, uri_of
from penstock.tables.processors.metadata_change import MetadataChangeProcessor
from penstock.tables.processors.owners import merged
from penstock.tables.samples import sample_record
from tests.unit.tables.conftest import NOW, Warehouse

URN = "urn:li:dataset:(urn:li:dataPlatform:hive,db.orders,PROD)"
URI = "hive:///db/orders"


def event(**given: Any) -> dict[str, Any]:
    return {"auditHeader": {"time": 1_478_000_000_999}, "urn": URN, "tags": [], "owners": []} | given


def field(path: str, position: int, **given: Any) -> dict[str, Any]:
    same = {"fieldPath": path, "position": position, "parentFieldPosition": 0, "type": "string"}
    return same | {"nullable": True, "isRecursive": False} | given


def schema(*fields: dict[str, Any], **given: Any) -> dict[str, Any]:
    original = {"format": "JSON", "text": "{}", "checksum": {}}
    return {"createTime": 1_470_000_000_500, "originalSchema": original, "fieldSchema": list(fields)} | given


@pytest.mark.parametrize(
    ("urn", "uri"),
    [
        (URN, URI),
        ("urn:li:dataset:(urn:li:dataPlatform:hdfs, /data/a, PROD)", "hdfs:///data/a"),
        ("urn:li:dataset:(urn:li:dataPlatform:ambry-x,b.c,EI)", "ambry-x:///b/c"),
        ("hdfs:///data/a.b", "hdfs:///data/a.b"),
        ("urn:li:dataset:(urn:li:dataPlatform:,x,PROD)", "urn:li:dataset:(urn:li:dataPlatform:,x,PROD)"),
    ],
)
def test_urns_become_the_form_of_the_tables(urn: str, uri: str) -> None:
    assert uri_of(urn) == uri


def test_the_names_of_a_dataset_in_their_order() -> None:
    record = {
        "urn": URN,
        "datasetProperties": {"uri": "hive:///x"},
        "datasetIdentifier": {
            "dataPlatformUrn": "urn:li:dataPlatform:my-sql",
            "nativeName": "a.b",
            "dataOrigin": "PROD",
        },
    }
    assert candidates(record) == ["hive:///x", URI, "my-sql:///a/b"]


def test_a_schema_makes_the_dataset_and_its_fields(warehouse: Warehouse) -> None:
    warehouse.write(
        MetadataChangeProcessor(),
        event(
            schema=schema(
                field("id", 1),
                field(
                    "a.b.name", 2, label="L", maxCharLength=10, precision=3, scale=1, nullable=False, defaultValue="x"
                ),
                revision=4,
            )
        ),
    )
    [row] = warehouse.rows(t.dict_dataset)
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": 1,
        "urn": URI,
        "name": "orders",
        "dataset_type": "hive",
        "source": "API",
        "schema": "{}",
        "schema_type": "JSON",
        "fields": row["fields"],
        "source_created_time": 1470000000,
        "created_time": NOW,
        "modified_time": NOW,
    }
    assert [each["fieldPath"] for each in json.loads(row["fields"])] == ["id", "a.b.name"]
    columns = ("sort_id", "parent_path", "field_name", "field_label", "data_size", "is_nullable", "is_indexed")
    assert warehouse.rows(t.dict_field_detail, *columns) == [
        (1, "", "id", None, None, "Y", "N"),
        (2, "a.b", "name", "L", 10, "N", "N"),
    ]
    assert warehouse.rows(t.dataset_schema_info, "dataset_id", "dataset_urn", "create_time", "revision") == [
        (1, URI, 1470000000500, 4)
    ]


def test_a_second_schema_keeps_what_others_said_of_the_fields(warehouse: Warehouse) -> None:
    writer = MetadataChangeProcessor()
    warehouse.write(writer, event(schema=schema(field("id", 1), field("name", 2))))
    with warehouse.target.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE dict_field_detail SET namespace='n', comment_ids='1,2', is_indexed='Y' WHERE field_name='name'"
        )
    warehouse.write(writer, event(schema=schema(field("name", 1), field("new", 2))))
    columns = ("field_name", "sort_id", "namespace", "comment_ids", "is_indexed")
    assert warehouse.rows(t.dict_field_detail, *columns) == [("name", 1, "n", "1,2", "Y"), ("new", 2, None, None, "N")]
    assert warehouse.rows(t.dict_dataset, "id", "created_time") == [(1, NOW)]


@pytest.mark.parametrize(
    "names",
    [
        {"urn": None, "datasetId": 1},
        {"urn": None, "datasetProperties": {"uri": URI}},
        {"urn": URN, "datasetProperties": {"uri": "hive:///unknown"}},
        {"urn": None, "datasetIdentifier": {"dataPlatformUrn": "urn:li:dataPlatform:hive", "nativeName": "db.orders"}},
    ],
)
def test_a_dataset_is_found_by_each_of_its_names(warehouse: Warehouse, names: dict[str, Any]) -> None:
    warehouse.add(t.dict_dataset, {"id": 1, "urn": URI})
    warehouse.write(MetadataChangeProcessor(), event(tags=["a"], **names))
    assert warehouse.rows(t.dataset_tag, "dataset_id", "dataset_urn", "tag") == [(1, URI, "a")]


ITEMS: list[tuple[str, Any, str, dict[str, Any]]] = [
    (
        "datasetProperties",
        {"caseSensitivity": {"datasetName": True, "fieldName": False, "dataContent": True}},
        "dataset_case_sensitivity",
        {"dataset_name": True, "field_name": False, "data_content": True},
    ),
    (
        "references",
        [{"referenceType": "JIRA", "referenceFormat": "ID", "referenceList": ["A-1"]}],
        "dataset_reference",
        {"reference_type": "JIRA", "reference_format": "ID", "reference_list": '["A-1"]'},
    ),
    (
        "partitionSpec",
        {"totalPartitionLevel": 1, "hasTimePartition": True, "partitionKeys": [{"fieldNames": ["id"]}]},
        "dataset_partition",
        {"total_partition_level": 1, "has_time_partition": True, "partition_keys": '[{"fieldNames":["id"]}]'},
    ),
    (
        "deploymentInfo",
        [
            {
                "deploymentTier": "PROD",
                "dataCenter": None,
                "cluster": "c",
                "enabled": True,
                "additionalDeploymentInfo": {},
            }
        ],
        "dataset_deployment",
        {"deployment_tier": "PROD", "datacenter": "", "cluster": "c", "enabled": True, "additional_info": "{}"},
    ),
    ("tags", ["a"], "dataset_tag", {"tag": "a"}),
    (
        "constraints",
        [
            {
                "constraintType": "REFERETIAL",
                "constraintSubType": "LIST",
                "constraintExpression": "x",
                "enabled": True,
                "referredFields": [],
            }
        ],
        "dataset_constraint",
        {
            "constraint_type": "REFERETIAL",
            "constraint_sub_type": "LIST",
            "constraint_expression": "x",
            "referred_fields": "[]",
        },
    ),
    (
        "indices",
        [
            {
                "indexType": "BTREE",
                "indexName": "i",
                "isUnique": True,
                "indexedFields": [{"position": 1, "fieldPath": "a.id"}],
            }
        ],
        "dataset_index",
        {"index_type": "BTREE", "index_name": "i", "is_unique": True},
    ),
    (
        "capacity",
        [
            {
                "capacityName": "n",
                "capacityType": "storage",
                "capacityUnit": "GB",
                "capacityLow": 1.5,
                "capacityHigh": 2.0,
            }
        ],
        "dataset_capacity",
        {"capacity_name": "n", "capacity_unit": "GB", "capacity_low": 1.5, "capacity_high": 2.0},
    ),
    (
        "privacyCompliancePolicy",
        {
            "complianceType": "AUTO_PURGE",
            "compliancePurgeEntities": [{"identifierType": "URN", "identifierField": "f"}],
        },
        "dataset_privacy_compliance",
        {"compliance_purge_type": "AUTO_PURGE"},
    ),
    (
        "securitySpecification",
        {"classification": {"confidential": ["id"]}, "recordOwnerType": "MEMBER", "retentionPolicy": None},
        "dataset_security",
        {"classification": '{"confidential":["id"]}', "record_owner_type": "MEMBER", "retention_policy": None},
    ),
]


@pytest.mark.parametrize(("name", "value", "table", "columns"), ITEMS, ids=[each[0] for each in ITEMS])
def test_an_item_is_stored_once_however_often_it_is_told(
    warehouse: Warehouse, name: str, value: Any, table: str, columns: dict[str, Any]
) -> None:
    warehouse.add(t.dict_dataset, {"id": 1, "urn": URI})
    writer = MetadataChangeProcessor()
    for _ in range(2):
        warehouse.write(writer, event(**{name: value}))
    [row] = warehouse.rows(t.metadata.tables[table])
    expected = columns | {"dataset_id": 1, "dataset_urn": URI, "modified_time": NOW}
    assert {key: row[key] for key in expected} == expected
    assert warehouse.counts() == {"dict_dataset": 1, table: 1}


def test_partitions_and_indices_mark_the_fields(warehouse: Warehouse) -> None:
    items = {name: value for name, value, _, _ in ITEMS if name in ("partitionSpec", "indices")}
    warehouse.write(MetadataChangeProcessor(), event(schema=schema(field("id", 1), field("x", 2)), **items))
    assert warehouse.rows(t.dict_field_detail, "field_name", "is_partitioned", "is_indexed") == [
        ("id", "Y", "Y"),
        ("x", "N", "N"),
    ]


def test_an_empty_list_of_tags_says_nothing_unless_as_in_the_original(warehouse: Warehouse) -> None:
    warehouse.add(t.dict_dataset, {"id": 1, "urn": URI})
    writer = MetadataChangeProcessor()
    warehouse.write(writer, event(tags=["a", "b", "a"]))
    warehouse.write(writer, event(tags=[]))
    assert warehouse.rows(t.dataset_tag, "tag") == ["a", "b"]
    warehouse.write(writer, event(tags=[]), values="v0.2.1")
    assert warehouse.rows(t.dataset_tag, "tag") == []
    warehouse.write(writer, event(urn="unknown", tags=[]), values="v0.2.1")


def test_an_empty_list_of_others_takes_them_away(warehouse: Warehouse) -> None:
    warehouse.add(t.dict_dataset, {"id": 1, "urn": URI})
    writer = MetadataChangeProcessor()
    lists = {name: value for name, value, _, _ in ITEMS if isinstance(value, list) and name != "tags"}
    warehouse.write(writer, event(**lists))
    assert len(warehouse.counts()) == 1 + len(lists)
    warehouse.write(writer, event(**{name: [] for name in lists}))
    assert warehouse.counts() == {"dict_dataset": 1}


def test_one_bad_item_undoes_the_whole_event(warehouse: Warehouse) -> None:
    bad = event(schema=schema(field("id", 1)), tags=["a"], constraints=[{"constraintType": None}])
    with pytest.raises(Exception, match="NOT NULL"):
        warehouse.write(MetadataChangeProcessor(), bad)
    assert warehouse.counts() == {}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (event(tags=["a"], capacity=[]), "has tags, capacity for a dataset that `dict_dataset` does not know"),
        (event(urn=None, schema=schema()), "names no dataset"),
        (event(schema=schema(createTime=None)), "no `createTime`"),
        (event(schema=schema(originalSchema=None)), "no `originalSchema`"),
        (event(schema=schema({"position": 1})), "no `fieldPath`"),
        (event(owners=[{}]), "one of `owners` has no `owner`"),
        (event(tags="a"), "`tags` is not a list"),
    ],
)
def test_what_cannot_be_stored_is_a_dead_letter(warehouse: Warehouse, record: dict[str, Any], words: str) -> None:
    with pytest.raises(BadEvent) as refused:
        warehouse.write(MetadataChangeProcessor(), record)
    assert words in str(refused.value)
    assert warehouse.counts() == {}


@pytest.mark.parametrize(
    "record", [None, event(auditHeader=None, tags=["a"]), event(auditHeader={}, tags=["a"]), event()]
)
def test_nothing_to_store(warehouse: Warehouse, record: dict[str, Any] | None) -> None:
    warehouse.write(MetadataChangeProcessor(), record)
    assert warehouse.counts() == {}


def owner(name: str, **given: Any) -> dict[str, Any]:
    return {"owner": name, "ownerCategory": "DELEGATE", "ownerType": "USER", "ownerSource": "SCM"} | given


def test_owners_of_unknown_datasets_or_accounts_are_set_aside_once(warehouse: Warehouse) -> None:
    writer = MetadataChangeProcessor()
    for _ in range(2):
        warehouse.write(writer, event(owners=[owner("urn:li:corpuser:ada"), owner("crew", ownerType="Group")]))
    columns = (
        "dataset_urn",
        "owner_id",
        "namespace",
        "owner_type",
        "owner_id_type",
        "is_group",
        "is_active",
        "source_time",
    )
    assert warehouse.rows(t.stg_dataset_owner_unmatched, *columns) == [
        (URI, "ada", "urn:li:corpuser", "DELEGATE", "USER", "N", "N", 1478000000),
        (URI, "crew", "", "DELEGATE", "Group", "Y", "N", 1478000000),
    ]
    assert set(warehouse.counts()) == {"stg_dataset_owner_unmatched"}


def test_owners_are_merged_with_those_that_are_known(warehouse: Warehouse) -> None:
    warehouse.add(t.dict_dataset, {"id": 1, "urn": URI})
    warehouse.add(dir_external_user_info, {"app_id": 300, "user_id": "ada", "is_active": "Y"})
    same = {"dataset_id": 1, "dataset_urn": URI, "app_id": 300}
    warehouse.add(
        t.dataset_owner,
        same | {"owner_id": "bob", "sort_id": 0, "owner_source": "UI"},
        same
        | {
            "owner_id": "ada",
            "sort_id": 1,
            "owner_type": "OWNER",
            "owner_source": "UI",
            "db_ids": "1",
            "confirmed_by": "eve",
            "created_time": 3,
        },
    )
    warehouse.write(MetadataChangeProcessor(), event(owners=[owner("urn:li:corpuser:ada")]))
    columns = (
        "owner_id",
        "sort_id",
        "owner_type",
        "owner_source",
        "db_ids",
        "confirmed_by",
        "created_time",
        "is_active",
    )
    assert warehouse.rows(t.dataset_owner, *columns) == [
        ("ada", 0, "OWNER", "SCM,UI", "1", "eve", 3, "Y"),
        ("bob", 1, None, "UI", None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("new", "old", "kept", "source"),
    [
        ("OWNER", "DELEGATE", "OWNER", "new,old"),
        ("STAKEHOLDER", "PRODUCER", "PRODUCER", "new,old"),
        ("odd", "STAKEHOLDER", "STAKEHOLDER", "new,old"),
        ("odd", "other", "odd", "new,old"),
        ("OWNER", "OWNER", "OWNER", "renewed"),
    ],
)
def test_the_stronger_category_stays(new: str, old: str, kept: str, source: str) -> None:
    def one(category: str, given: str) -> dict[str, Any]:
        return {"owner_id": "a", "owner_type": category, "owner_source": given} | dict.fromkeys(
            ("db_ids", "created_time", "confirmed_by", "confirmed_on")
        )

    [row] = merged([one(new, "new")], [one(old, "renewed" if source == "renewed" else "old")], None)
    assert (row["owner_type"], row["owner_source"], row["sort_id"]) == (kept, source, 0)


def test_the_sample_fills_every_table(warehouse: Warehouse) -> None:
    warehouse.add(dir_external_user_info, {"app_id": 300, "user_id": "ada", "is_active": "Y"})
    warehouse.write(MetadataChangeProcessor(), sample_record("MetadataChangeEvent", 0))
    filled = set(warehouse.counts())
    assert set(MetadataChangeProcessor.tables) - filled <= {"stg_dataset_owner_unmatched"}
