"""A DataHub site's records: change logs and platform events as its catalogue writes them to Kafka."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro

from tests.compat.datahub_schemas import CHANGE_LOG, PLATFORM_EVENT
from tests.support.registry import RegistryServer


class Records:
    """Makes record values, with their schemas in this registry."""

    def __init__(self, registry: RegistryServer) -> None:
        self.registry_url = registry.url
        self._change_log = _Schema(registry, CHANGE_LOG)
        self._platform_event = _Schema(registry, PLATFORM_EVENT)

    def change_log(self, number: int, aspect: dict[str, Any], aspect_name: str, **more: Any) -> bytes:
        """A change of a dataset's aspect."""
        return self._change_log.written(
            {
                "entityType": "dataset",
                "entityUrn": dataset(number),
                "changeType": "UPSERT",
                "aspectName": aspect_name,
                "aspect": {"value": json.dumps(aspect).encode(), "contentType": "application/json"},
                "systemMetadata": {"lastObserved": 1755000000000, "runId": "run-1", "lastRunId": "run-0"},
                "created": {"time": 1755000000000, "actor": "urn:li:corpuser:user1"},
            }
            | more
        )

    def entity_change(self, number: int, category: str, operation: str = "ADD", **more: Any) -> bytes:
        """Something has happened to a dataset."""
        payload = {
            "entityType": "dataset",
            "entityUrn": dataset(number),
            "category": category,
            "operation": operation,
            "auditStamp": {"time": 1755000000000, "actor": "urn:li:corpuser:user1"},
            "version": 0,
        } | more
        return self.platform_event("entityChangeEvent", payload)

    def platform_event(self, name: str, payload: dict[str, Any]) -> bytes:
        value = {"value": json.dumps(payload).encode(), "contentType": "application/json"}
        return self._platform_event.written({"header": {"timestampMillis": 1}, "name": name, "payload": value})


def dataset(number: int) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:hive,shop.table{number},PROD)"


class _Schema:
    def __init__(self, registry: RegistryServer, schema: dict[str, Any]) -> None:
        self._parsed = fastavro.parse_schema(schema)
        self._head = struct.pack(
            ">bI", 0, registry.schemas.register(schema["name"], {"schema": json.dumps(schema), "schemaType": "AVRO"})
        )

    def written(self, value: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, value)
        return self._head + out.getvalue()
