"""What the sample events of every kind say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_DAY: Final = 86_400_000
_START: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z: the n-th sample is of the n-th day behind it, so that samples are the same every time."""


@dataclass(frozen=True, slots=True)
class SampleTopic:
    """A topic as WhereHows knew it: what reads it, and where its rows go."""

    topic: str
    processor: str
    table: str
    make: Callable[[int], dict[str, Any]]


# -- Gobblin -------------------------------------------------------------------------------


def _tracking(number: int, name: str, namespace: str, **metadata: str) -> dict[str, Any]:
    job = {
        "clusterIdentifier": "hdfs://eat1-holdem.example.com",
        "azkabanProjectName": "ingestion",
        "azkabanFlowId": "daily",
        "azkabanJobId": "publish",
        "azkabanExecId": str(1000 + number),
    }
    return {"timestamp": _START + number * _DAY, "namespace": namespace, "name": name, "metadata": job | metadata}


def _day(number: int) -> str:
    return f"2026/{number // 28 % 12 + 1:02}/{number % 28 + 1:02}"


def _compaction(number: int) -> dict[str, Any]:
    if number % 2:
        return _tracking(
            number,
            "CompactionRecordCounts",
            "compaction.tracking.events",
            DatasetOutputPath=f"/data/tracking/PageViewEvent/daily/{_day(number)}",
            RegularRecordCount=str(100_000 + number),
            LateRecordCount=str(number),
        )
    return _tracking(
        number,
        "CompactionCompleted",
        "compaction.tracking.events",
        datasetUrn="/data/tracking/PageViewEvent",
        partition=f"daily/{_day(number)}",
        recordCount=str(100_000 + number),
        dedupeStatus="DEDUPED",
    )


def _distcp(number: int) -> dict[str, Any]:
    return _tracking(
        number,
        "DatasetPublished",
        "gobblin.copy.CopyDataPublisher",
        datasetUrn="/data/databases/Orders",
        partition=f"daily/{_day(number)}",
        upstreamTimestamp=str(_START + number * _DAY - 60_000),
        originTimestamp=str(_START + number * _DAY - 120_000),
        SourcePath=f"/source/Orders/{_day(number)}",
        TargetPath=f"/data/databases/Orders/{_day(number)}",
    )


def _lumos(number: int) -> dict[str, Any]:
    snapshot, at = f"{_START}-PSS-1", _START + number * _DAY
    same = {
        "datasetUrn": "/data/databases/Members",
        "Dropdate": str(at),
        "recordCount": str(5_000 + number),
        "DatasourceColo": "prod-lva1",
        "Database": "MEMBERS",
        "Table": "PROFILE",
    }
    if number % 2:
        place = f"/data/databases/Members/{snapshot}/_delta/{at}-PSS-1"
        return _tracking(number, "DeltaPublished", "lumos", TargetDirectory=place, partition=f"{at}-PSS-1", **same)
    place = f"/data/databases/Members/{at}-PSS-1"
    return _tracking(number, "SnapshotPublished", "lumos", TargetDirectory=place, partition=f"{at}-PSS-1", **same)


def _audit(number: int) -> dict[str, Any]:
    return _tracking(
        number,
        "MetadataFileClassifier",
        "audit",
        dataset=f"/data/tracking/Event{number}",
        schema='{"type": "record", "name": "Event", "fields": []}',
        modificationTime=str(_START + number * _DAY),
        owner="etl",
        group="users",
        permission="rwxr-xr-x",
        codec="avro",
        storage="hdfs",
        cluster="holdem",
        abstractPath="/data/tracking",
    )


# -- Hive's metastore ----------------------------------------------------------------------


def _header(number: int) -> dict[str, Any]:
    return {
        "time": _START + number * _DAY,
        "server": "eat1-holdem-meta01",
        "instance": "i001",
        "appName": "hive-metastore",
        "messageId": number.to_bytes(16, "big"),
    }


_STORAGE: Final = {"isCompressed": False, "numBuckets": 0, "isStoredAsSubDirectories": False}


def _table(number: int) -> dict[str, Any]:
    table = {
        "tableName": f"orders_{number}",
        "dbName": "sales",
        "owner": "etl",
        "createTime": _START,
        "lastAccessTime": _START + number * _DAY,
        "retention": 0,
        "schema": [{"name": "id", "type": "bigint", "comment": None}],
        "location": f"/warehouse/sales/orders_{number}",
        "storageDescriptor": _STORAGE,
        "tableType": "MANAGED_TABLE",
    }
    content = {
        "eventType": "CREATE_TABLE",
        "timestamp": _START + number * _DAY,
        "metastoreThriftUri": "thrift://localhost:9083",
        "metastoreVersion": "1.1.0",
        "isSuccessful": True,
        "isDataDeleted": False,
        "newTable": table,
    }
    return {"auditHeader": _header(number), "metastoreTableAuditContent": content}


def _partition(number: int) -> dict[str, Any]:
    partition = {
        "values": [_day(number).replace("/", "-")],
        "dbName": "sales",
        "tableName": "orders",
        "createTime": _START,
        "lastAccessTime": _START + number * _DAY,
        "location": f"/warehouse/sales/orders/{_day(number)}",
        "storageDescriptor": _STORAGE,
    }
    content = {
        "eventType": "ADD_PARTITION",
        "timestamp": _START + number * _DAY,
        "isSuccessful": True,
        "isDataDeleted": False,
        "newPartition": partition,
    }
    return {"auditHeader": _header(number), "metastorePartitionAuditContent": content}


# -- metadata ------------------------------------------------------------------------------


def _identifier(name: str) -> dict[str, Any]:
    return {"dataPlatformUrn": "urn:li:dataPlatform:hive", "nativeName": name, "dataOrigin": "PROD"}


def _properties(number: int, uri: str) -> dict[str, Any]:
    return {
        "changeAuditStamp": {
            "actorUrn": "urn:li:corpuser:ada",
            "type": "UPDATE",
            "time": _START + number * _DAY,
            "note": "nightly",
        },
        "nativeType": "TABLE",
        "uri": uri,
        "caseSensitivity": {"datasetName": False, "fieldName": False, "dataContent": True},
    }


def _change(number: int) -> dict[str, Any]:
    name = f"sales.orders_{number}"
    return {
        "auditHeader": _header(number),
        "urn": f"urn:li:dataset:(urn:li:dataPlatform:hive,{name},PROD)",
        "datasetIdentifier": _identifier(name),
        "datasetProperties": _properties(number, f"hive:///sales/orders_{number}"),
        "owners": [
            {"ownerCategory": "OWNER", "owner": "urn:li:corpuser:ada", "ownerType": "USER", "ownerSource": "SCM"},
            {
                "ownerCategory": "DELEGATE",
                "owner": "urn:li:corpGroup:sales",
                "ownerType": "GROUP",
                "ownerSource": "SCM",
            },
        ],
        "references": [{"referenceType": "WIKI", "referenceFormat": "URL", "referenceList": ["https://example.com"]}],
        "partitionSpec": {
            "totalPartitionLevel": 1,
            "hasTimePartition": True,
            "partitionKeys": [{"partitionLevel": 1, "partitionType": "RANGE", "fieldNames": ["day"]}],
        },
        "deploymentInfo": [{"deploymentTier": "PROD", "dataCenter": "lva1", "cluster": "holdem"}],
        "tags": ["sales", "orders"],
        "schema": _schema(number),
        "constraints": [
            {
                "constraintType": "DATAQUALITY",
                "constraintSubType": "RANGE",
                "constraintExpression": "total >= 0",
                "referredFields": [{"position": 1, "fieldPath": "total"}],
            }
        ],
        "indices": [
            {"indexType": "primary", "indexName": "pk", "indexedFields": [{"position": 1, "fieldPath": "customer.id"}]}
        ],
        "capacity": [{"capacityName": "disk", "capacityUnit": "GB", "capacityLow": 1.0, "capacityHigh": 10.0}],
        "privacyCompliancePolicy": {
            "complianceType": "AUTO_PURGE",
            "compliancePurgeEntities": [{"identifierType": "MEMBER_ID", "identifierField": "customer.id"}],
        },
        "securitySpecification": {
            "classification": {"confidential": ["customer.id"]},
            "recordOwnerType": "MEMBER",
            "retentionPolicy": {"retentionType": "LIMITED", "retentionWindow": 90, "retentionWindowUnit": "DAY"},
        },
    }


def _schema(number: int) -> dict[str, Any]:
    fields = [("customer.id", "bigint"), ("total", "decimal"), ("day", "string")]
    return {
        "createTime": _START,
        "revision": number,
        "name": f"orders_{number}",
        "originalSchema": {"format": "DDL", "text": "CREATE TABLE orders (…)"},
        "fieldSchema": [
            {"position": place, "fieldPath": path, "type": kind} for place, (path, kind) in enumerate(fields, 1)
        ],
    }


def _inventory(number: int) -> dict[str, Any]:
    item = {
        "nativeName": f"sales.orders_{number}",
        "dataOrigin": "PROD",
        "datasetProperties": _properties(number, f"hive:///sales/orders_{number}"),
    }
    return {"auditHeader": _header(number), "dataPlatformUrn": "urn:li:dataPlatform:hive", "datasetList": [item]}


def _lineage(number: int) -> dict[str, Any]:
    def dataset(path: str, operation: str) -> dict[str, Any]:
        return {
            "datasetIdentifier": _identifier(path),
            "datasetUrn": f"hdfs://localhost:9000{path}",
            "operation": operation,
        }

    execution = {
        "name": "load-orders",
        "definitionId": 7,
        "executionId": 70_000 + number,
        "executionGuid": f"00000000-0000-0000-0000-{number:012}",
        "topLevelFlowName": "sales-daily",
        "flowDefinitionId": 8,
        "flowExecutionId": 80_000 + number,
        "attempt": 0,
        "startTime": _START + number * _DAY,
        "endTime": _START + number * _DAY + 600_000,
        "state": "SUCCEEDED",
    }
    return {
        "auditHeader": _header(number),
        "application": {"type": "AZKABAN", "name": "sample-azkaban"},
        "jobExecution": execution,
        "inputDatasetList": [dataset(f"/data/tracking/PageViewEvent/daily/{_day(number)}", "READ")],
        "outputDatasetList": [dataset("/data/derived/orders", "WRITE")],
    }


SAMPLES: Final[dict[str, SampleTopic]] = {
    sample.topic: sample
    for sample in (
        SampleTopic("GobblinTrackingEvent", "gobblin-compaction", "stg_kafka_gobblin_compaction", _compaction),
        SampleTopic("GobblinTrackingEvent_distcp_ng", "gobblin-distcp", "stg_kafka_gobblin_distcp", _distcp),
        SampleTopic("GobblinTrackingEvent_lumos", "gobblin-lumos", "stg_kafka_gobblin_lumos", _lumos),
        SampleTopic("GobblinTrackingEvent_audit", "gobblin-audit", "dict_dataset", _audit),
        SampleTopic("MetastoreTableAuditEvent", "metastore-audit", "stg_kafka_metastore_audit", _table),
        SampleTopic("MetastorePartitionAuditEvent", "metastore-audit", "stg_kafka_metastore_audit", _partition),
        SampleTopic("MetadataChangeEvent", "metadata-change", "dict_dataset", _change),
        SampleTopic("MetadataInventoryEvent", "metadata-inventory", "dataset_inventory", _inventory),
        SampleTopic("JobExecutionLineageEvent", "job-execution-lineage", "job_execution", _lineage),
    )
}
