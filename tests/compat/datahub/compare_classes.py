"""Run with DataHub's package installed: events made the short way are what its own, generic way makes."""

from __future__ import annotations

import base64
import io
import json
import time
from pathlib import Path
from typing import Any

import fastavro
from datahub.metadata.schema_classes import MetadataChangeLogClass
from datahub_actions.event.event_registry import EntityChangeEvent, MetadataChangeLogEvent, RelationshipChangeEvent

from penstock.core.event import Event, Record
from penstock.datahub import events
from penstock.datahub.classes import enveloped, event_makers
from tests.compat.datahub_schemas import CHANGE_LOG

GOLDENS = Path(__file__).parents[1] / "data" / "events.json"
SCHEMA = fastavro.parse_schema(CHANGE_LOG)


def main() -> None:
    made = json.loads(GOLDENS.read_text())
    makers = event_makers()
    compared = 0
    bodies = [base64.b64decode(one["body"]) for one in made["MetadataChangeLogEvent_v1"]]
    for body in bodies:
        theirs = generic(body)
        ours = makers[events.MetadataChangeLogEvent](light(body))
        assert type(ours) is MetadataChangeLogEvent
        same(ours, theirs)
        compared += 1
    for kind, cls in (
        ("EntityChangeEvent_v1", EntityChangeEvent),
        ("RelationshipChangeEvent_v1", RelationshipChangeEvent),
    ):
        own: Any = events.EVENTS[kind]
        for one in made[kind]:
            if "error" not in one:
                same(makers[own](own.from_json(one["payload"])), cls.from_json(one["payload"]))
                compared += 1
    print(json.dumps({"compared": compared, "short": rate(short_way(bodies)), "generic": rate(generic_way(bodies))}))  # noqa: T201 - for the test


def light(body: bytes) -> Any:
    value = fastavro.schemaless_reader(io.BytesIO(body), SCHEMA, None, return_record_name=True)
    return events.MetadataChangeLogEvent.from_obj(value, tuples=True)


def generic(body: bytes) -> Any:
    value = fastavro.schemaless_reader(io.BytesIO(body), SCHEMA, None, return_record_name=True)
    return MetadataChangeLogEvent.from_class(MetadataChangeLogClass.from_obj(value, tuples=True))


def same(ours: Any, theirs: Any) -> None:
    """Fields, their order, and classes, all the way down."""
    assert type(ours) is type(theirs)
    if hasattr(theirs, "_inner_dict"):
        assert list(ours._inner_dict) == list(theirs._inner_dict)
        for name, value in theirs._inner_dict.items():
            same(ours._inner_dict[name], value)
    else:
        assert ours == theirs


def short_way(bodies: list[bytes]) -> Any:
    lights = [light(body) for body in bodies]

    def make() -> int:
        for one in lights:
            event = Event(Record("t", 0, 0), None, events.METADATA_CHANGE_LOG_EVENT_V1_TYPE)
            event.event = one
            enveloped(event)
        return len(lights)

    return make


def generic_way(bodies: list[bytes]) -> Any:
    values = [fastavro.schemaless_reader(io.BytesIO(body), SCHEMA, None, return_record_name=True) for body in bodies]

    def make() -> int:
        for value in values:
            MetadataChangeLogEvent.from_class(MetadataChangeLogClass.from_obj(value, tuples=True))
        return len(values)

    return make


def rate(make: Any) -> float:
    """Events per second of processor time, the best of five rounds."""
    rates = []
    for _ in range(5):
        began, count = time.process_time(), 0
        while time.process_time() - began < 0.1:
            count += make()
        rates.append(count / (time.process_time() - began))
    return round(max(rates))


if __name__ == "__main__":
    main()
