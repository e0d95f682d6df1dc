"""What a metadata change event may say of a known dataset, one function per item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from penstock.tables import metadata_tables as t
from penstock.tables.processor import BadEvent, Row
from penstock.tables.processors.datasets import Dataset
from penstock.tables.processors.reading import json_text, list_of, records_of, required_record, split_last
from penstock.tables.rows import Rows


class Change(NamedTuple):
    """An event, and the dataset it is about."""

    rows: Rows
    dataset: Dataset
    record: Mapping[str, Any]
    now: int

    def set(self, table: sa.Table, row: Row) -> None:
        """The one row of the dataset in a table."""
        self.rows.upsert(table, ["dataset_id"], self._whole(row))

    def replace(self, table: sa.Table, rows: list[Row]) -> None:
        """All rows of the dataset in a table; of equal ones the last."""
        keys = [column.name for column in table.primary_key]
        made = [self._whole(row) for row in rows]
        last = {tuple(row[key] for key in keys): row for row in made}
        self.rows.replace(table, {"dataset_id": self.dataset.id}, list(last.values()))

    def _whole(self, row: Row) -> Row:
        return {"dataset_id": self.dataset.id, "dataset_urn": self.dataset.urn} | row | {"modified_time": self.now}

    def mark_fields(self, names: list[str], column: str) -> None:
        """Set a flag of the fields of these names."""
        c = t.dict_field_detail.c
        if names and self.rows.has(t.dict_field_detail):
            these = sa.update(t.dict_field_detail).where(c.dataset_id == self.dataset.id, c.field_name.in_(names))
            self.rows.connection.execute(these.values({column: "Y"}))


def case_sensitivity(change: Change) -> None:
    cases = required_record(required_record(change.record, "datasetProperties"), "caseSensitivity")
    change.set(
        t.dataset_case_sensitivity,
        {
            "dataset_name": cases.get("datasetName"),
            "field_name": cases.get("fieldName"),
            "data_content": cases.get("dataContent"),
        },
    )


def references(change: Change) -> None:
    change.replace(
        t.dataset_reference,
        [
            {
                "reference_type": item.get("referenceType"),
                "reference_format": item.get("referenceFormat"),
                "reference_list": json_text(item.get("referenceList")),
            }
            for item in records_of(change.record, "references") or []
        ],
    )


def partition_spec(change: Change) -> None:
    spec = required_record(change.record, "partitionSpec")
    change.set(
        t.dataset_partition,
        {
            "total_partition_level": spec.get("totalPartitionLevel"),
            "partition_spec_text": spec.get("partitionSpecText"),
            "has_time_partition": spec.get("hasTimePartition"),
            "has_hash_partition": spec.get("hasHashPartition"),
            "partition_keys": json_text(spec.get("partitionKeys")),
            "time_partition_expression": spec.get("timePartitionExpression"),
        },
    )
    keys = records_of(spec, "partitionKeys") or []
    change.mark_fields([name for key in keys for name in list_of(key, "fieldNames") or []], "is_partitioned")


def deployment(change: Change) -> None:
    change.replace(
        t.dataset_deployment,
        [
            {
                "deployment_tier": item.get("deploymentTier"),
                "datacenter": item.get("dataCenter") or "",  # part of the key, and the event may have none
                "region": item.get("region"),
                "zone": item.get("zone"),
                "cluster": item.get("cluster"),
                "container": item.get("container"),
                "enabled": item.get("enabled"),
                "additional_info": json_text(item.get("additionalDeploymentInfo")),
            }
            for item in records_of(change.record, "deploymentInfo") or []
        ],
    )


def tags(change: Change) -> None:
    given = list_of(change.record, "tags") or []
    if not all(isinstance(tag, str) for tag in given):
        raise BadEvent("`tags` holds something that is not a text")
    change.replace(t.dataset_tag, [{"tag": tag} for tag in given])


def constraints(change: Change) -> None:
    change.replace(
        t.dataset_constraint,
        [
            {
                "constraint_type": item.get("constraintType"),
                "constraint_sub_type": item.get("constraintSubType"),
                "constraint_name": item.get("constraintName"),
                "constraint_expression": item.get("constraintExpression"),
                "enabled": item.get("enabled"),
                "referred_fields": json_text(item.get("referredFields")),
                "additional_reference": json_text(item.get("additionalReferences")),
            }
            for item in records_of(change.record, "constraints") or []
        ],
    )


def indices(change: Change) -> None:
    items = records_of(change.record, "indices") or []
    change.replace(
        t.dataset_index,
        [
            {
                "index_type": item.get("indexType"),
                "index_name": item.get("indexName"),
                "is_unique": item.get("isUnique"),
                "indexed_fields": json_text(item.get("indexedFields")),
            }
            for item in items
        ],
    )
    paths = [field.get("fieldPath") for item in items for field in records_of(item, "indexedFields") or []]
    change.mark_fields([split_last(path, ".")[1] for path in paths if path], "is_indexed")


def capacity(change: Change) -> None:
    change.replace(
        t.dataset_capacity,
        [
            {
                "capacity_name": item.get("capacityName"),
                "capacity_type": item.get("capacityType"),
                "capacity_unit": item.get("capacityUnit"),
                "capacity_low": item.get("capacityLow"),
                "capacity_high": item.get("capacityHigh"),
            }
            for item in records_of(change.record, "capacity") or []
        ],
    )


def privacy(change: Change) -> None:
    policy = required_record(change.record, "privacyCompliancePolicy")
    change.set(
        t.dataset_privacy_compliance,
        {
            "compliance_purge_type": policy.get("complianceType"),
            "compliance_purge_entities": json_text(policy.get("compliancePurgeEntities")),
        },
    )


def security(change: Change) -> None:
    spec = required_record(change.record, "securitySpecification")
    change.set(
        t.dataset_security,
        {
            "classification": json_text(spec.get("classification")),
            "record_owner_type": spec.get("recordOwnerType"),
            "retention_policy": json_text(spec.get("retentionPolicy")),
            "geographic_affinity": json_text(spec.get("geographicAffinity")),
        },
    )
