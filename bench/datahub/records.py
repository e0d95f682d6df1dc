"""Records as a catalogue writes them: MetadataChangeLogs of about 1.6 kB and platform events with an entity change."""

from __future__ import annotations

import io
import itertools
import struct
from typing import Any

import fastavro
import orjson

from bench.datahub.environment import schema

MCL_TOPIC = "MetadataChangeLog_Versioned_v1"
PE_TOPIC = "PlatformEvent_v1"
MCL_SCHEMA = "MetadataChangeLog"
PE_SCHEMA = "PlatformEvent"
MARK_EVERY = 500
"""One MetadataChangeLog in so many is about tags: the only ones that the filter of the rejected runs lets pass."""
MARK_ASPECT = "globalTags"

_JSON = "application/json"
_ASPECTS = ("schemaMetadata", "datasetProperties", "ownership", "upstreamLineage")
_ENTITIES = ("dataset", "dataset", "dataset", "chart", "dataJob")
_CHANGES = (("TAG", "ADD"), ("OWNERSHIP", "ADD"), ("GLOSSARY_TERM", "REMOVE"), ("DOCUMENTATION", "MODIFY"))


class Framed:
    """Writes values of one schema in Confluent's frame."""

    def __init__(self, name: str, schema_id: int) -> None:
        self._schema = fastavro.parse_schema(orjson.loads(schema(name)))
        self._head = struct.pack(">bI", 0, schema_id)

    def __call__(self, value: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        out.write(self._head)
        fastavro.schemaless_writer(out, self._schema, value)
        return out.getvalue()


def change_logs(schema_id: int, count: int) -> list[bytes]:
    """MetadataChangeLogs, one in `MARK_EVERY` of them about tags."""
    framed = Framed(MCL_SCHEMA, schema_id)
    return [framed(_change_log(number)) for number in range(count)]


def _change_log(number: int) -> dict[str, Any]:
    marked = number % MARK_EVERY == 0
    entity = "dataset" if marked else _ENTITIES[number % len(_ENTITIES)]
    aspect = MARK_ASPECT if marked else _ASPECTS[number % len(_ASPECTS)]
    urn = _urn(entity, number)
    return {
        "auditHeader": None,
        "entityType": entity,
        "entityUrn": urn,
        "entityKeyAspect": None,
        "changeType": "UPSERT",
        "aspectName": aspect,
        "aspect": {"value": orjson.dumps(_aspect(aspect, number, 10)), "contentType": _JSON},
        "systemMetadata": _system(number),
        "headers": None,
        "previousAspectValue": {"value": orjson.dumps(_aspect(aspect, number, 8)), "contentType": _JSON},
        "previousSystemMetadata": _system(number - 1),
        "created": {"time": 1_755_000_000_000 + number, "actor": "urn:li:corpuser:ingestion"},
    }


def _urn(entity: str, number: int) -> str:
    return f"urn:li:{entity}:(urn:li:dataPlatform:snowflake,shop.public.orders_{number:06d},PROD)"


def _aspect(name: str, number: int, fields: int) -> dict[str, Any]:
    kinds = itertools.cycle(("VARCHAR(255)", "NUMBER(38,0)", "TIMESTAMP_NTZ"))
    columns = [{"fieldPath": f"column_{n}_{number}", "nativeDataType": next(kinds)} for n in range(fields)]
    return {"name": name, "fields": columns, "version": 0, "hash": f"{number:032x}"}


def _system(number: int) -> dict[str, Any]:
    return {
        "lastObserved": 1_755_000_000_000 + number,
        "runId": f"snowflake-2026_11_16-{number % 100:02d}",
        "lastRunId": "no-run-id-provided",
        "registryName": "unknownRegistry",
        "registryVersion": "0.0.0.0-dev",
    }


def entity_changes(schema_id: int, count: int) -> list[bytes]:
    """Platform events that carry an entity change each."""
    framed = Framed(PE_SCHEMA, schema_id)
    return [entity_change(framed, number, 1) for number in range(count)]


def entity_change(framed: Framed, number: int, produced_ns: int) -> bytes:
    """One of them, with its number and the time at which it was produced among its parameters."""
    category, operation = _CHANGES[number % len(_CHANGES)]
    modifier = f"urn:li:tag:kind_{number % 50}"
    payload = {
        "entityUrn": _urn("dataset", number),
        "entityType": "dataset",
        "category": category,
        "operation": operation,
        "modifier": modifier,
        "parameters": {"tagUrn": modifier, "n": number, "t": produced_ns},
        "auditStamp": {"time": 1_755_000_000_000 + number, "actor": "urn:li:corpuser:user1"},
        "version": 0,
    }
    return framed(
        {
            "header": {"timestampMillis": 1_755_000_000_000 + number},
            "name": "entityChangeEvent",
            "payload": {"value": orjson.dumps(payload), "contentType": _JSON},
        }
    )
