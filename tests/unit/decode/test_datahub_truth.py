"""The truth table of DataHub's filters, its matching rule and its two forms, on whole events and from bytes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.event import Event, Record
from penstock.core.plugin import PipelineContext
from penstock.filter.event_type import EventTypeFilter
from penstock.testing import given, run_pipeline
from penstock.transform.legacy_filter import LegacyFilter
from tests.unit.decode.test_datahub import CHANGE, LOG, RELATION, decoder, framed, platform

_CTX = PipelineContext("p")
MCL, ECE, RCE = "MetadataChangeLogEvent_v1", "EntityChangeEvent_v1", "RelationshipChangeEvent_v1"
_RECORDS = {
    MCL: Record("logs", 0, 0, None, framed(7, LOG)),
    ECE: Record("events", 0, 0, None, platform("entityChangeEvent", CHANGE)),
    RCE: Record("events", 0, 0, None, platform("relationshipChangeEvent", RELATION)),
}

_PREDICATES = [
    # A map: all of its keys; a missing key reads as null.
    (MCL, {}, True),
    (MCL, {"entityType": "dataset", "changeType": "UPSERT"}, True),
    (MCL, {"entityType": "dataset", "changeType": "DELETE"}, False),
    (MCL, {"previousAspectValue": None}, True),
    (MCL, {"no such field": None}, True),
    (MCL, {"no such field": "x"}, False),
    (MCL, {"aspectName": None}, False),
    (ECE, {"modifier": None}, True),
    # A text that is a JSON map is looked into, at every level.
    (MCL, {"aspect": {"contentType": "application/json"}}, True),
    (MCL, {"aspect": {"value": {}}}, True),
    (MCL, {"aspect": {"value": {"tags": "x"}}}, False),
    (MCL, {"aspect": {"value": {"other": None}}}, True),
    (MCL, {"entityUrn": {}}, False),
    (MCL, {"systemMetadata": {"properties": {"a": "b"}}}, True),
    (MCL, {"created": {"actor": ["urn:li:corpuser:user1"]}}, True),
    (ECE, {"auditStamp": {"actor": "urn:li:corpuser:user1", "time": 1}}, True),
    (ECE, {"parameters": {"tagUrn": "urn:li:tag:pii"}}, True),
    (ECE, {"parameters": None}, False),
    # A list: any of its texts, and of texts only.
    (MCL, {"entityType": ["chart", "dataset"]}, True),
    (MCL, {"entityType": ["chart"]}, False),
    (MCL, {"entityType": []}, False),
    (ECE, {"version": [0]}, False),
    (ECE, {"modifier": [None]}, False),
    (MCL, {"aspect": ["x"]}, False),
    # Anything else: equal, as Python has it.
    (ECE, {"version": 0}, True),
    (ECE, {"version": 0.0}, True),
    (ECE, {"version": False}, True),
    (ECE, {"version": "0"}, False),
    (ECE, {"category": "tag"}, False),
    (MCL, {"systemMetadata": {"lastObserved": 0}}, True),
    (RCE, {"operation": "ADD", "via": None}, True),
    (RCE, {"relationshipType": "Knows"}, False),
]
_FORMS = [
    ({MCL: None}, {MCL}),
    ({MCL: {}}, {MCL}),
    ({MCL: {"event": None}}, {MCL}),
    ({MCL: {"event": []}}, set()),
    ({MCL: {"event": [{}]}}, {MCL}),
    ({MCL: None, ECE: None}, {MCL, ECE}),
    ({"Other_v1": None}, set()),
    ({ECE: {"event": [{"category": "OWNER"}, {"category": "TAG"}]}}, {ECE}),
    ({ECE: {"event": [{"category": "OWNER"}, {"operation": "REMOVE"}]}}, set()),
]


def _passes(event_type: str, step: Any) -> bool:
    """What a step says of the event; it must say the same where the decoder answers for it."""
    one = decoder()
    [whole] = one.decode([_RECORDS[event_type]])
    assert isinstance(whole, Event)
    passes = step.matches(whole) if isinstance(step, EventTypeFilter) else step.transform(whole) is not None
    one.push_down([step.wanted])
    [pushed] = one.decode([_RECORDS[event_type]])
    assert (pushed is not None) == passes
    return bool(passes)


@pytest.mark.parametrize(("event_type", "predicate", "passes"), _PREDICATES)
def test_predicates(event_type: str, predicate: dict[str, Any], passes: bool) -> None:  # noqa: FBT001 - a column of the table
    both = EventTypeFilter.create({"filter": {event_type: {"event": [predicate]}}}, _CTX)
    legacy = LegacyFilter.create({"event_type": event_type, "event": predicate}, _CTX)
    assert (_passes(event_type, both), _passes(event_type, legacy)) == (passes, passes)


@pytest.mark.parametrize(("config", "passing"), _FORMS)
def test_event_types(config: dict[str, Any], passing: set[str]) -> None:
    step = EventTypeFilter.create({"filter": config}, _CTX)
    assert {event_type for event_type in _RECORDS if _passes(event_type, step)} == passing


@pytest.mark.parametrize(("event_type", "passing"), [(ECE, {ECE}), ([ECE, RCE], {ECE, RCE}), ("Other_v1", set())])
def test_event_types_of_the_legacy_form(event_type: Any, passing: set[str]) -> None:
    step = LegacyFilter.create({"event_type": event_type}, _CTX)
    assert {each for each in _RECORDS if _passes(each, step)} == passing


def test_expressions_and_transforms_see_the_parameters() -> None:
    document = {
        "name": "p",
        "source": {"type": "kafka", "config": {"connection": {"schema_registry_url": "http://localhost:1"}}},
        "filters": [{"type": "cel", "config": {"expression": "event.parameters.tagUrn == 'urn:li:tag:pii'"}}],
        "transform": [{"type": "keep", "config": {"fields": ["category", "parameters.tagUrn"]}}],
        "action": {"type": "hello_world"},
    }
    run = run_pipeline(document, [given(CHANGE, event_type=ECE), given({"version": 0}, event_type=ECE)])
    assert [each.outcome for each in run] == ["acted", "failed"]
    assert run.acted == [{"category": "TAG", "parameters": {"tagUrn": "urn:li:tag:pii"}}]
