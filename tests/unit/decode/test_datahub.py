"""`format: datahub`: routes, poison, and what is counted."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from penstock.core.errors import DecodeError, Unavailable
from penstock.core.event import ENVELOPE, Event, Record
from penstock.core.plugin import Dropped, PipelineContext
from penstock.datahub.events import EntityChangeEvent, MetadataChangeLogEvent, RelationshipChangeEvent
from penstock.decode.datahub import DataHubDecoder
from penstock.filter.event_type import EventTypeFilter
from tests.compat.datahub_schemas import CHANGE_LOG, PLATFORM_EVENT, optional, record
from tests.unit.decode.records import Known

OTHER = record("shop.Order", id="long", status="string")
ALIEN = record("shop.Odd", entityType="long", changeType="string")
SCHEMAS = {7: CHANGE_LOG, 8: PLATFORM_EVENT, 9: OTHER, 10: ALIEN, 11: {"type": "array", "items": "string"}}
ROUTES = {"mcl": "logs", "mcl_timeseries": "series", "pe": "events", "mine": "others"}
LOG: dict[str, Any] = {
    "entityType": "dataset",
    "entityUrn": "urn:li:dataset:1",
    "changeType": "UPSERT",
    "aspectName": "globalTags",
    "aspect": {"value": b'{"tags": []}', "contentType": "application/json"},
    "systemMetadata": {"lastObserved": None, "runId": "r", "properties": {"a": "b"}},
    "created": {"time": 1755000000000, "actor": "urn:li:corpuser:user1"},
}
CHANGE = {
    "entityType": "dataset",
    "entityUrn": "urn:li:dataset:1",
    "category": "TAG",
    "operation": "ADD",
    "parameters": {"tagUrn": "urn:li:tag:pii"},
    "auditStamp": {"time": 1, "actor": "urn:li:corpuser:user1"},
    "version": 0,
}
RELATION = {
    "sourceUrn": "a",
    "destinationUrn": "b",
    "operation": "ADD",
    "relationshipType": "Owns",
    "auditStamp": {"time": 1, "actor": "c"},
}


def framed(schema_id: int, value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMAS[schema_id]), value)
    return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()


def platform(name: str, payload: Any) -> bytes:
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    value = {"value": text, "contentType": "application/json"}
    return framed(8, {"header": {"timestampMillis": 1}, "name": name, "payload": value})


def decoder(**filters: Any) -> DataHubDecoder:
    made = DataHubDecoder(Known(SCHEMAS), ROUTES)
    if filters:
        made.push_down([EventTypeFilter.create({"filter": filters}, PipelineContext("p")).wanted])
    return made


def decode(topic: str, raw: bytes | None, **filters: Any) -> Any:
    [result] = decoder(**filters).decode([Record(topic, 3, 41, None, raw)])
    return result


@pytest.mark.parametrize("topic", ["logs", "series"])
def test_a_change_log_as_user_code_sees_it(topic: str) -> None:
    event = decode(topic, framed(7, LOG)).event
    assert isinstance(event, MetadataChangeLogEvent)
    assert (event.entityType, event.changeType, event.aspect.value) == ("dataset", "UPSERT", b'{"tags": []}')
    assert event.get("entityUrn") == "urn:li:dataset:1"
    assert event.get("nothing", 5) == 5
    assert event.auditHeader is None
    # A null reads as the default, as DataHub's classes have it.
    assert (event.systemMetadata.lastObserved, event.systemMetadata.runId) == (0, "r")
    assert event.created.to_obj() == {"time": 1755000000000, "actor": "urn:li:corpuser:user1"}
    event.aspectName = "changed"
    assert json.loads(event.as_json())["aspectName"] == "changed"


def test_bytes_that_are_no_text_have_a_form_all_the_same() -> None:
    header = {"time": 1, "server": "s", "appName": "a", "messageId": bytes(range(240, 256))}
    aspect = {"value": b"\xff\x00", "contentType": "x"}
    event = decode("logs", framed(7, LOG | {"auditHeader": header, "aspect": aspect})).event
    assert event.auditHeader.messageId == bytes(range(240, 256))
    assert event.to_obj()["auditHeader"]["messageId"] == bytes(range(240, 256)).decode("latin-1")
    assert event.to_obj()["aspect"]["value"] == "/wA="
    assert MetadataChangeLogEvent.from_json(event.as_json()).auditHeader == event.auditHeader


@pytest.mark.parametrize(
    ("name", "payload", "kind"),
    [("entityChangeEvent", CHANGE, EntityChangeEvent), ("relationshipChangeEvent", RELATION, RelationshipChangeEvent)],
)
def test_platform_events_by_name(name: str, payload: Any, kind: type) -> None:
    event = decode("events", platform(name, payload)).event
    assert type(event) is kind
    assert json.loads(event.as_json()) == payload


@pytest.mark.parametrize(
    ("topic", "raw"), [("events", platform("somethingElse", b"no json")), ("others", b"anything"), ("nowhere", None)]
)
def test_what_there_is_no_event_for_is_dropped_and_counted(topic: str, raw: bytes | None) -> None:
    one = decoder()
    assert one.decode([Record(topic, 0, 0, None, raw)]) == [None]
    assert one.dropped.take() == Dropped(unrouted=1)
    assert one.dropped.take() == Dropped()


def test_a_topic_under_two_routes_is_read_once() -> None:
    one = DataHubDecoder(Known(SCHEMAS), {"mcl": "t", "mcl_timeseries": "t"})
    assert len(one.decode([Record("t", 0, 0, None, framed(7, LOG))])) == 1


_LACKING = {name: value for name, value in CHANGE.items() if name != "entityUrn"}
_POISON = [
    ("logs", None, "a tombstone is no event"),
    ("events", None, "a tombstone is no event"),
    ("logs", b"\0\0", "too short for a schema frame"),
    ("logs", b'{"entityType": "dataset"}', "byte 0 is 0x7b"),
    ("events", b"\x01" + platform("entityChangeEvent", CHANGE)[1:], "byte 0 is 0x01"),
    ("logs", framed(7, LOG)[:-3], "not Avro of schema id 7: "),
    ("logs", framed(7, LOG)[:9], "not Avro of schema id 7: "),
    ("logs", framed(7, LOG)[:5], "not Avro of schema id 7: "),
    ("logs", framed(7, LOG).replace(b"globalTags", b"global\xffags"), "not Avro of schema id 7: "),
    ("events", platform("entityChangeEvent", CHANGE)[:-4], "not Avro of schema id 8: "),
    (
        "logs",
        framed(9, {"id": 1, "status": "paid"}),
        "schema id 9: the schema shop.Order is not that of a com.linkedin",
    ),
    ("events", framed(9, {"id": 1, "status": "paid"}), "it has no field name"),
    ("events", framed(7, LOG), "it has no field name"),
    ("logs", framed(10, {"entityType": 1, "changeType": "UPSERT"}), "the field entityType is of type long"),
    ("logs", framed(11, ["a"]), "of type array"),
    ("events", platform("entityChangeEvent", b"no json"), "the payload of entityChangeEvent: Expecting value"),
    ("events", platform("entityChangeEvent", b"\xff\xfe\xfa"), "the payload of entityChangeEvent: "),
    ("events", platform("entityChangeEvent", _LACKING), "is missing required field: entityUrn"),
    ("events", platform("entityChangeEvent", CHANGE | {"version": "x"}), "the field version is a str, not integer"),
    ("events", platform("entityChangeEvent", CHANGE | {"auditStamp": {}}), "missing required field: time"),
    ("events", platform("entityChangeEvent", b"[" * 100_000), "the payload of entityChangeEvent: "),
    ("events", platform("relationshipChangeEvent", [1]), "is a list, not a map"),
]


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize(("topic", "raw", "said"), _POISON)
def test_each_bad_record_is_told_and_its_neighbours_are_not_touched(
    topic: str,
    raw: bytes | None,
    said: str,
    filtered: bool,  # noqa: FBT001 - a column of the table
) -> None:
    good = framed(7, LOG) if topic == "logs" else platform("entityChangeEvent", CHANGE)
    wanted = {"event": [{"entityType": "dataset"}]}
    kinds = ("MetadataChangeLogEvent_v1", "EntityChangeEvent_v1", "RelationshipChangeEvent_v1")
    one = decoder(**dict.fromkeys(kinds, wanted)) if filtered else decoder()
    records = [Record(topic, 0, offset, None, value) for offset, value in enumerate([good, raw, good, raw, good])]
    results = one.decode(records)
    assert [type(results[place]) for place in (0, 2, 4)] == [Event] * 3
    for place in (1, 3):
        error = results[place]
        assert isinstance(error, DecodeError)
        assert said in str(error)
        assert len(str(error)) < 1_000


class Away(Known):
    """A registry that cannot be reached."""

    def find(self, schema_id: int, unusable: Any) -> Any:
        raise Unavailable("the registry does not answer")


def test_an_outage_of_the_registry_is_nobodys_failure() -> None:
    records = [Record("logs", 0, 0, None, None), Record("logs", 0, 1, None, framed(7, LOG))]
    with pytest.raises(Unavailable):
        DataHubDecoder(Away({}), ROUTES).decode(records)


def test_what_is_behind_the_deciding_bytes_does_not_matter() -> None:
    wants = {"MetadataChangeLogEvent_v1": {"event": [{"entityType": "chart"}]}}
    assert decode("logs", framed(7, LOG)[:-3], **wants) is None
    assert isinstance(decode("logs", framed(7, LOG)[:12], **wants), DecodeError)


@pytest.mark.parametrize(
    ("filters", "early"),
    [
        ({"MetadataChangeLogEvent_v1": None}, {}),
        ({"MetadataChangeLogEvent_v1": {"event": [{"entityType": ["dataset", "x"]}]}}, {"passed": 1}),
        ({"MetadataChangeLogEvent_v1": {"event": [{"entityType": "chart"}]}}, {"rejected": 1}),
        ({"MetadataChangeLogEvent_v1": {"event": []}}, {"entirely_rejected": 1}),
        ({"EntityChangeEvent_v1": None}, {"entirely_rejected": 1}),
    ],
)
def test_early_answers_are_counted_as_datahub_does(filters: Any, early: dict[str, int]) -> None:
    one = decoder(**filters)
    one.decode([Record("logs", 0, 0, None, framed(7, LOG))])
    assert one.dropped.take() == Dropped(early=early)


def test_dropped_platform_events_are_counted_by_their_step() -> None:
    one = decoder(EntityChangeEvent_v1={"event": [{"category": "OWNER"}]})
    one.decode([Record("events", 0, 0, None, platform("entityChangeEvent", CHANGE))] * 3)
    assert one.dropped.take() == Dropped(by_step={0: 3})


def test_the_early_filter_can_be_switched_off() -> None:
    one = DataHubDecoder(Known(SCHEMAS), ROUTES, early=False)
    one.push_down([lambda _: []])
    assert isinstance(one.decode([Record("logs", 0, 0, None, framed(7, LOG))])[0], Event)


def test_an_envelope_is_taken_for_one_only_where_no_client_could_have_read_it() -> None:
    event = decode("events", platform("entityChangeEvent", CHANGE))
    text = event.as_json().encode()
    [again] = decoder().decode([Record("events", 3, 41, None, text, timestamp_type_=ENVELOPE)])
    assert isinstance(again, Event)
    assert again.as_json().encode() == text
    assert again.event_type is event.event_type
    for kind in (0, 1, 2):
        [refused] = decoder().decode([Record("events", 3, 41, None, text, timestamp_type_=kind)])
        assert isinstance(refused, DecodeError)


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"event_type": "X"}', b'{"event_type": "EntityChangeEvent_v1"}'])
def test_an_envelope_that_is_none(text: bytes) -> None:
    [refused] = decoder().decode([Record("events", 3, 41, None, text, timestamp_type_=ENVELOPE)])
    assert isinstance(refused, DecodeError)
    assert "envelope" in str(refused)


def test_a_schema_that_refers_to_itself_is_skipped_over() -> None:
    tree = record("shop.Tree", left=optional("shop.Tree"), names={"type": "array", "items": "string"})
    schema = record("com.linkedin.Log", tree=tree, entityType="string", changeType="string")
    SCHEMAS[12] = schema
    inner = {"left": None, "names": ["x", "y" * 100]}
    raw = framed(12, {"tree": {"left": inner, "names": []}, "entityType": "dataset", "changeType": "UPSERT"})
    assert decode("logs", raw).event.entityType == "dataset"
    assert decode("logs", raw, MetadataChangeLogEvent_v1={"event": [{"entityType": "chart"}]}) is None
