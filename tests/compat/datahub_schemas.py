"""DataHub's Avro schemas, as far as its records are written with them."""

from __future__ import annotations

from typing import Any


def optional(kind: Any) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


def record(full_name: str, /, **fields: Any) -> dict[str, Any]:
    written = [{"name": field, **(kind if _is_field(kind) else {"type": kind})} for field, kind in fields.items()]
    namespace, _, short = full_name.rpartition(".")
    return {"type": "record", "name": short, "namespace": namespace, "fields": written}


def _is_field(kind: Any) -> bool:
    return isinstance(kind, dict) and "default" in kind


TEXTS = {"type": "map", "values": "string"}
STAMP = "com.linkedin.pegasus2avro.common.AuditStamp"
ASPECT = "com.linkedin.pegasus2avro.mxe.GenericAspect"
SYSTEM = "com.linkedin.pegasus2avro.mxe.SystemMetadata"

CHANGE_LOG = record(
    "com.linkedin.pegasus2avro.mxe.MetadataChangeLog",
    auditHeader=optional(
        record(
            "com.linkedin.events.KafkaAuditHeader",
            time="long",
            server="string",
            instance=optional("string"),
            appName="string",
            messageId={"type": "fixed", "name": "UUID", "size": 16},
            auditVersion=optional("int"),
            fabricUrn=optional("string"),
            clusterConnectionString=optional("string"),
        )
    ),
    entityType="string",
    entityUrn=optional("string"),
    entityKeyAspect=optional(record(ASPECT, value="bytes", contentType="string")),
    changeType={
        "type": "enum",
        "name": "com.linkedin.pegasus2avro.events.metadata.ChangeType",
        "symbols": ["UPSERT", "CREATE", "UPDATE", "DELETE", "PATCH", "RESTATE", "CREATE_ENTITY"],
    },
    aspectName=optional("string"),
    aspect=optional(ASPECT),
    systemMetadata=optional(
        record(
            SYSTEM,
            lastObserved={"type": ["long", "null"], "default": 0},
            runId={"type": ["string", "null"], "default": "no-run-id-provided"},
            lastRunId={"type": ["string", "null"], "default": "no-run-id-provided"},
            pipelineName=optional("string"),
            registryName=optional("string"),
            registryVersion=optional("string"),
            properties=optional(TEXTS),
            version=optional("string"),
            schemaVersion=optional("long"),
            aspectCreated=optional(
                record(STAMP, time="long", actor="string", impersonator=optional("string"), message=optional("string"))
            ),
            aspectModified=optional(STAMP),
        )
    ),
    headers=optional(TEXTS),
    previousAspectValue=optional(ASPECT),
    previousSystemMetadata=optional(SYSTEM),
    created=optional(STAMP),
)

PLATFORM_EVENT = record(
    "com.linkedin.pegasus2avro.mxe.PlatformEvent",
    header=record("com.linkedin.pegasus2avro.mxe.PlatformEventHeader", timestampMillis="long"),
    name="string",
    payload=record("com.linkedin.pegasus2avro.mxe.GenericPayload", value="bytes", contentType="string"),
)
