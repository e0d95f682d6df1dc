"""Light events against what DataHub Actions itself made of the same records (`make_event_goldens`)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.event import Event, Record
from penstock.datahub.envelope import EventEnvelope
from penstock.datahub.events import EVENTS, MetadataChangeLogEvent
from penstock.decode.datahub import DataHubDecoder
from tests.compat.datahub_schemas import CHANGE_LOG
from tests.unit.decode.records import Known

_MADE: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "data" / "events.json").read_text())
_WHERE = {"kafka": {"topic": "PlatformEvent_v1", "offset": 41, "partition": 3}}
_HEAD = b"\0\0\0\0\7"


def _of(kind: str) -> list[Any]:
    return [pytest.param(kind, made, id=f"{kind}-{number}") for number, made in enumerate(_MADE[kind])]


@pytest.mark.parametrize(("kind", "made"), _of("MetadataChangeLogEvent_v1"))
def test_a_change_log_has_the_same_text(kind: str, made: dict[str, Any]) -> None:
    decoder = DataHubDecoder(Known({7: CHANGE_LOG}), {"mcl": "M"})
    [event] = decoder.decode([Record("M", 0, 0, None, _HEAD + base64.b64decode(made["body"]))])
    assert isinstance(event, Event)
    assert event.event_type is next(name for name in EVENTS if name == kind)
    assert event.event.as_json() == made["as_json"]
    again = MetadataChangeLogEvent.from_json(made["as_json"])
    assert again == event.event
    assert again.as_json() == made["as_json"]
    _same_envelope(kind, event.event, made)


@pytest.mark.parametrize(("kind", "made"), _of("EntityChangeEvent_v1") + _of("RelationshipChangeEvent_v1"))
def test_a_payload_has_the_same_text_or_is_refused_as_well(kind: str, made: dict[str, Any]) -> None:
    cls = EVENTS[kind]
    if "error" in made:
        with pytest.raises(ValueError, match=r"missing required field|is a \w+, not"):
            cls.from_json(made["payload"])
        return
    event = cls.from_json(made["payload"])
    assert event.as_json() == made["as_json"]
    assert cls.from_json(made["payload"].encode()) == event
    assert cls.from_json(event.as_json()).as_json() == made["as_json"]
    if "to_obj" in made:
        assert json.dumps(event.to_obj()) == made["to_obj"]
        assert json.dumps(event.safe_parameters) == made["safe_parameters"]  # type: ignore[attr-defined]  # of this class
        assert sorted(event._inner_dict) == made["inner"]
        assert event.get("parameters") is None
    _same_envelope(kind, event, made)


def _same_envelope(kind: str, event: Any, made: dict[str, Any]) -> None:
    if "envelope" in made:
        assert EventEnvelope(kind, event, _WHERE).as_json() == made["envelope"]
        assert EventEnvelope.from_json(made["envelope"]).as_json() == made["envelope"]
        kept = Event(Record("PlatformEvent_v1", 3, 41), event, kind, event)
        assert kept.as_json() == made["envelope"]
