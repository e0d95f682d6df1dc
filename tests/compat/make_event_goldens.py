"""Writes `data/events.json`: records, and what DataHub Actions makes of them.

Run by hand, in an environment that has `acryl-datahub-actions` (1.7.0.17 made the file that is here):

    python -m tests.compat.make_event_goldens
"""

from __future__ import annotations

import base64
import io
import json
import random
from pathlib import Path
from typing import Any

import fastavro
from datahub.metadata.schema_classes import MetadataChangeLogClass
from datahub_actions.event.event_envelope import EventEnvelope
from datahub_actions.event.event_registry import EntityChangeEvent, MetadataChangeLogEvent, RelationshipChangeEvent

from tests.compat.datahub_schemas import CHANGE_LOG

FILE = Path(__file__).parent / "data" / "events.json"
_random = random.Random(20260901)
_WORDS = ["dataset", "urn:li:tag:pii", "", "ünï — çødé", "日本語"]
_WORDS += ['"quoted" \\ back', "tab\tline\n\u2028", "😀", "a" * 70]


def _text() -> str:
    return _random.choice(_WORDS)


def _maybe(make: Any) -> Any:
    return make() if _random.random() < 0.6 else None


def _time() -> int:
    return _random.choice([0, -1, 63, 64, 1755000000000, 2**63 - 1, -(2**63)])


def _texts() -> dict[str, str]:
    return {_text(): _text() for _ in range(_random.randrange(4))}


def _stamp() -> dict[str, Any]:
    return {"time": _time(), "actor": _text(), "impersonator": _maybe(_text), "message": _maybe(_text)}


def _aspect() -> dict[str, Any]:
    value = _random.choice(['{"tags": [{"tag": "urn:li:tag:pii"}]}', "", "{}", "ünï", '{"a": {"b": null}}'])
    return {"value": value.encode(), "contentType": "application/json"}


def _system() -> dict[str, Any]:
    return {
        "lastObserved": _maybe(_time),
        "runId": _maybe(_text),
        "lastRunId": _maybe(_text),
        "pipelineName": _maybe(_text),
        "registryName": _maybe(_text),
        "registryVersion": _maybe(_text),
        "properties": _maybe(_texts),
        "version": _maybe(_text),
        "schemaVersion": _maybe(_time),
        "aspectCreated": _maybe(_stamp),
        "aspectModified": _maybe(_stamp),
    }


def _change_log() -> dict[str, Any]:
    return {
        "auditHeader": None,  # the original has no JSON for one
        "entityType": _text(),
        "entityUrn": _maybe(_text),
        "entityKeyAspect": _maybe(_aspect),
        "changeType": _random.choice(["UPSERT", "RESTATE", "CREATE_ENTITY"]),
        "aspectName": _maybe(_text),
        "aspect": _maybe(_aspect),
        "systemMetadata": _maybe(_system),
        "headers": _maybe(_texts),
        "previousAspectValue": _maybe(_aspect),
        "previousSystemMetadata": _maybe(_system),
        "created": _maybe(_stamp),
    }


def _json_value(depth: int = 0) -> Any:
    kinds = [_text, _time, lambda: None, lambda: True, lambda: 1.5]
    if depth < 3:
        kinds += [
            lambda: {_text(): _json_value(depth + 1) for _ in range(_random.randrange(3))},
            lambda: [_json_value(depth + 1) for _ in range(_random.randrange(3))],
        ]
    return _random.choice(kinds)()


def _sometimes(obj: dict[str, Any]) -> dict[str, Any]:
    """Null, absent, wrapped and unknown fields, in any order."""
    fields = list(obj.items())
    _random.shuffle(fields)
    made = dict(fields)
    name = _random.choice(list(made))
    match _random.randrange(8):
        case 0:
            made[name] = None
        case 1:
            del made[name]
        case 2:
            made["unknown"] = _json_value()
        case 3 if isinstance(made[name], str):
            made[name] = {"string": made[name]}
    return made


def _entity_change() -> dict[str, Any]:
    made = {"entityType": _text(), "entityUrn": _text(), "category": _text(), "operation": _text()}
    made |= {"auditStamp": _stamp(), "version": _random.choice([0, 1, -5])}
    if _random.random() < 0.6:
        made["modifier"] = _text()
    if _random.random() < 0.7:
        made["parameters"] = _random.choice([{}, None, {"tagUrn": "urn:li:tag:pii"}, {"x": _json_value()}])
    return _sometimes(made)


def _relationship_change() -> dict[str, Any]:
    made = {"sourceUrn": _text(), "destinationUrn": _text(), "operation": _random.choice(["ADD", "REMOVE", "RESTATE"])}
    made |= {"relationshipType": _text(), "auditStamp": _stamp()}
    for name, make in (("lifecycleOwner", _text), ("via", _text), ("properties", _texts)):
        if _random.random() < 0.6:
            made[name] = make()
    return _sometimes(made)


def _sometimes_envelope(kind: str, event: Any) -> dict[str, str]:
    if _random.random() < 0.8:
        return {}
    meta = {"kafka": {"topic": "PlatformEvent_v1", "offset": 41, "partition": 3}}
    return {"envelope": EventEnvelope(kind, event, meta).as_json()}


def _of_change_log() -> dict[str, Any]:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(CHANGE_LOG), _change_log())
    body.seek(0)
    value = fastavro.schemaless_reader(body, fastavro.parse_schema(CHANGE_LOG), None, return_record_name=True)
    event = MetadataChangeLogEvent.from_class(MetadataChangeLogClass.from_obj(value, True))
    kept = {"body": base64.b64encode(body.getvalue()).decode(), "as_json": event.as_json()}
    assert MetadataChangeLogEvent.from_json(event.as_json()).as_json() == event.as_json()
    return kept | _sometimes_envelope("MetadataChangeLogEvent_v1", event)


def _of_payload(cls: Any, kind: str, payload: str) -> dict[str, Any]:
    try:
        event = cls.from_json(payload)
        told = {"as_json": event.as_json()} | _sometimes_envelope(kind, event)
        if cls is EntityChangeEvent:
            told["to_obj"] = json.dumps(event.to_obj())
            told["safe_parameters"] = json.dumps(event.safe_parameters)
            told["inner"] = sorted(event._inner_dict)
    except Exception as error:  # noqa: BLE001 - whatever it says of a bad payload
        told = {"error": type(error).__name__}
    return {"payload": payload} | told


def main() -> None:
    ascii_only = [True, False]
    made = {
        "MetadataChangeLogEvent_v1": [_of_change_log() for _ in range(60)],
        "EntityChangeEvent_v1": [
            _of_payload(
                EntityChangeEvent,
                "EntityChangeEvent_v1",
                json.dumps(_entity_change(), ensure_ascii=_random.choice(ascii_only)),
            )
            for _ in range(120)
        ],
        "RelationshipChangeEvent_v1": [
            _of_payload(
                RelationshipChangeEvent,
                "RelationshipChangeEvent_v1",
                json.dumps(_relationship_change(), ensure_ascii=_random.choice(ascii_only)),
            )
            for _ in range(60)
        ],
    }
    FILE.write_text(json.dumps(made, indent=1) + "\n")
    print({kind: (len(all_), sum("error" in one for one in all_)) for kind, all_ in made.items()})  # noqa: T201 - for the person who runs it


if __name__ == "__main__":
    main()
