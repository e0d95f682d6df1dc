"""Filters answered from bytes decide as they do on whole events, whatever the schema, the record and the filters."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import DecodeError
from penstock.core.event import Event, Record
from penstock.core.plugin import Wanted
from penstock.datahub.events import MetadataChangeLogEvent
from penstock.decode.datahub import DataHubDecoder
from tests.compat.datahub_schemas import PLATFORM_EVENT
from tests.unit.decode.avro_strategies import Pair
from tests.unit.decode.datahub_strategies import (
    change_logs,
    entity_changes,
    steps_on_change_logs,
    steps_on_entity_changes,
)
from tests.unit.decode.records import Known

Steps = Sequence[tuple[Wanted, Any]]
_HEAD = b"\0\0\0\0\7"
_RECORDS = settings(max_examples=100)


def _framed(schema: Any, value: Any) -> bytes:
    body = io.BytesIO(_HEAD)
    body.seek(len(_HEAD))
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def _decoded(schema: Any, raw: bytes, steps: Steps = ()) -> Any:
    decoder = DataHubDecoder(Known({7: schema}), {"mcl": "t"} if schema is not PLATFORM_EVENT else {"pe": "t"})
    decoder.push_down([wanted for wanted, _ in steps])
    [result] = decoder.decode([Record("t", 0, 0, None, raw)])
    return result


def _passes(event: Event, steps: Steps) -> bool:
    return all(matches(event) for _, matches in steps)


@given(change_logs())
@_RECORDS
def test_a_reader_made_for_a_schema_reads_what_others_read(pair: Pair) -> None:
    schema, value = pair
    event = _decoded(schema, _framed(schema, value))
    assert isinstance(event, Event)
    assert event.event == MetadataChangeLogEvent.from_obj(value)


@given(change_logs(), steps_on_change_logs())
@_RECORDS
def test_change_logs(pair: Pair, steps: Steps) -> None:
    schema, value = pair
    raw = _framed(schema, value)
    whole = _decoded(schema, raw)
    assert isinstance(whole, Event)
    pushed = _decoded(schema, raw, steps)
    assert (pushed is None) == (not _passes(whole, steps))
    if pushed is not None:
        assert pushed.event == whole.event


@given(change_logs(), steps_on_change_logs(), st.data())
@_RECORDS
def test_a_cut_off_change_log_is_dropped_only_for_what_it_says(pair: Pair, steps: Steps, data: st.DataObject) -> None:
    schema, value = pair
    raw = _framed(schema, value)
    cut = raw[: data.draw(st.integers(len(_HEAD), max(len(_HEAD), len(raw) - 1)))]
    result = _decoded(schema, cut, steps)
    if result is None:
        assert _decoded(schema, raw, steps) is None
    elif cut != raw:
        assert isinstance(result, DecodeError)
        assert "schema id 7" in str(result)


@given(change_logs(), st.binary(max_size=40), steps_on_change_logs())
@_RECORDS
def test_any_bytes_end_their_own_record_only(pair: Pair, body: bytes, steps: Steps) -> None:
    schema, _ = pair
    assert _decoded(schema, _HEAD + body, steps) is None or isinstance(
        _decoded(schema, _HEAD + body), (Event, DecodeError)
    )


@given(entity_changes(), steps_on_entity_changes())
@_RECORDS
def test_platform_events(payload: dict[str, Any], steps: Steps) -> None:
    value = {"value": json.dumps(payload).encode(), "contentType": "application/json"}
    platform = {"header": {"timestampMillis": 1}, "name": "entityChangeEvent", "payload": value}
    raw = _framed(PLATFORM_EVENT, platform)
    whole, pushed = _decoded(PLATFORM_EVENT, raw), _decoded(PLATFORM_EVENT, raw, steps)
    if isinstance(whole, DecodeError):
        # What no filter asks for may be wrong in an event that is dropped.
        assert pushed is None or isinstance(pushed, DecodeError)
        return
    if pushed is None:
        assert not _passes(whole, steps)
    else:
        assert pushed.event == whole.event


@given(entity_changes(), steps_on_entity_changes())
@_RECORDS
def test_predicates_see_an_event_as_its_json(payload: dict[str, Any], steps: Steps) -> None:
    value = {"value": json.dumps(payload).encode(), "contentType": "application/json"}
    platform = {"header": {"timestampMillis": 1}, "name": "entityChangeEvent", "payload": value}
    whole = _decoded(PLATFORM_EVENT, _framed(PLATFORM_EVENT, platform))
    if isinstance(whole, Event):
        plain = Event(whole.record, json.loads(whole.event.as_json()), whole.event_type)
        assert _passes(whole, steps) == _passes(plain, steps)


@given(change_logs(), steps_on_change_logs())
@_RECORDS
def test_predicates_see_a_change_log_as_its_json(pair: Pair, steps: Steps) -> None:
    schema, value = pair
    whole = _decoded(schema, _framed(schema, value))
    plain = Event(whole.record, json.loads(whole.event.as_json()), whole.event_type)
    assert _passes(whole, steps) == _passes(plain, steps)
