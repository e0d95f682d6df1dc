"""Random writer schemas that are like DataHub's change log, records that fit them, and filters over their fields."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from penstock.core.plugin import PipelineContext, Wanted
from penstock.datahub.events import ENTITY_CHANGE_EVENT_V1_TYPE, METADATA_CHANGE_LOG_EVENT_V1_TYPE
from penstock.filter.event_type import EventTypeFilter
from penstock.filter.match import Match
from penstock.transform.legacy_filter import LegacyFilter
from tests.unit.decode.avro_strategies import Pair, pairs

_numbers = itertools.count()
_NUMBER = st.builds(lambda: next(_numbers))  # no two types of a schema may have one name
_TEXTS = ["dataset", "chart", "", "ü", "x" * 70, '{"a": "b"}', "{}", "1"]
_TEXT = st.sampled_from(_TEXTS)
_LONG = st.sampled_from([0, 1, -1, 63, 64, 1755000000000, 2**63 - 1, -(2**63)])
_BYTES = st.sampled_from([b"{}", b'{"a": "b"}', b'{"a": {"b": 1}}', b"\xff", b"", b"[1]"])


def _union(schema: Any, value: Any, order: int) -> Pair:
    return ([schema, "null"], value) if order else (["null", schema], value)


def _text() -> st.SearchStrategy[Pair]:
    """Texts, enumerations and unions of them."""
    symbols = ["dataset", "chart", "UPSERT"]
    enum = _NUMBER.map(lambda n: {"type": "enum", "name": f"Kind{n}", "symbols": symbols})
    plain: st.SearchStrategy[Pair] = st.one_of(
        _TEXT.map(lambda text: ("string", text)), st.tuples(enum, st.sampled_from(symbols))
    )
    return st.one_of(plain, st.tuples(plain, st.booleans(), st.integers(0, 1)).map(_nullable))


def _nullable(drawn: tuple[Pair, bool, int]) -> Pair:
    (schema, value), null, order = drawn
    return _union(schema, None if null else value, order)


def _record(name: str, fields: dict[str, Pair]) -> Pair:
    shape = [{"name": field, "type": schema} for field, (schema, _) in fields.items()]
    value = {field: value for field, (_, value) in fields.items()}
    return {"type": "record", "name": name, "fields": shape}, value


def _nested(name: str, **fields: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    numbered = st.tuples(_NUMBER, st.fixed_dictionaries(dict(fields)))
    made = numbered.map(lambda drawn: _record(f"{name}{drawn[0]}", drawn[1]))
    return st.one_of(made, st.tuples(made, st.booleans(), st.integers(0, 1)).map(_nullable))


_LONGS = _LONG.map(lambda n: ("long", n))
_OPTIONAL_TEXT = _TEXT.map(lambda text: (["null", "string"], text))
_MAP = st.dictionaries(_TEXT, _TEXT, max_size=3).map(lambda texts: ({"type": "map", "values": "string"}, texts))
_ASPECT = _nested("Aspect", value=_BYTES.map(lambda raw: ("bytes", raw)), contentType=_text())
_STAMP = _nested("Stamp", time=_LONGS, actor=_text(), message=_OPTIONAL_TEXT)
_SYSTEM = _nested(
    "System", lastObserved=_LONGS, runId=_text(), properties=st.one_of(_MAP, _MAP.map(lambda m: (["null", m[0]], None)))
)
_FIELDS = {
    "entityUrn": _text(),
    "aspectName": _text(),
    "aspect": _ASPECT,
    "systemMetadata": _SYSTEM,
    "headers": _MAP,
    "created": _STAMP,
}


@st.composite
def change_logs(draw: st.DrawFn) -> Pair:
    """A schema with the required fields, some others, some that DataHub does not know, in any order; and a record."""
    fields = {"entityType": draw(_text()), "changeType": draw(_text())}
    for name in draw(st.sets(st.sampled_from(sorted(_FIELDS)))):
        fields[name] = draw(_FIELDS[name])
    for number, pair in enumerate(draw(st.lists(pairs(), max_size=3))):
        fields[f"added{number}"] = pair
    order = draw(st.permutations(list(fields)))
    return _record("MetadataChangeLog", {name: fields[name] for name in order})


_STAMP_JSON = st.fixed_dictionaries(
    {"time": _LONG, "actor": _TEXT}, optional={"message": st.none() | _TEXT, "other": _TEXT}
)
_ODD = st.one_of(st.none(), _TEXT, st.just({"string": "dataset"}), st.integers(), st.just([]))


@st.composite
def entity_changes(draw: st.DrawFn) -> dict[str, Any]:
    """A payload; now and then a field is missing or odd."""
    required = {"entityType": _TEXT, "entityUrn": _TEXT, "category": _TEXT, "operation": _TEXT}
    optional = {"modifier": st.none() | _TEXT, "parameters": st.none() | st.dictionaries(_TEXT, _TEXT, max_size=2)}
    made = draw(
        st.fixed_dictionaries(required | {"auditStamp": _STAMP_JSON, "version": st.integers(0, 1)}, optional=optional)
    )
    name = draw(st.sampled_from(sorted(made)))
    match draw(st.integers(0, 9)):
        case 0:
            del made[name]
        case 1:
            made[name] = draw(_ODD)
    return made


_SCALAR = st.one_of(st.none(), st.booleans(), st.integers(0, 1), st.just(1.0), _TEXT, _LONG)
_WANT = st.recursive(
    st.one_of(_SCALAR, st.lists(st.one_of(_TEXT, st.integers(0, 1)), max_size=3)),
    lambda inner: st.dictionaries(
        st.sampled_from(["a", "b", "value", "contentType", "actor", "time", "runId", "message", "other", "dataset"]),
        inner,
        max_size=2,
    ),
    max_leaves=4,
)


def _predicates(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(names), _WANT, max_size=3)


def _step(event_type: str, names: list[str]) -> st.SearchStrategy[tuple[Wanted, Any]]:
    """What the step wants, and how it decides about an event."""
    ctx = PipelineContext("p")
    types = st.sampled_from([event_type, event_type, event_type, "Other_v1"])
    given = st.one_of(st.none(), st.fixed_dictionaries({"event": st.lists(_predicates(names), max_size=3)}))

    def event_type_filter(config: Any) -> tuple[Wanted, Any]:
        made = EventTypeFilter.create({"filter": config}, ctx)
        return made.wanted, made.matches

    def match(config: Any) -> tuple[Wanted, Any]:
        made = Match.create(config, ctx)
        return made.wanted, made.matches

    def legacy(config: Any) -> tuple[Wanted, Any]:
        made = LegacyFilter.create(config, ctx)
        return made.wanted, lambda event: made.transform(event) is not None

    return st.one_of(
        st.dictionaries(types, given, min_size=1, max_size=2).map(event_type_filter),
        st.fixed_dictionaries({"event": _predicates(names)}, optional={"event_type": types}).map(match),
        st.fixed_dictionaries({"event_type": types}, optional={"event": _predicates(names)}).map(legacy),
    )


def steps_on_change_logs() -> st.SearchStrategy[list[tuple[Wanted, Any]]]:
    names = ["entityType", "changeType", *_FIELDS, "previousAspectValue", "added0", "no such field"]
    return st.lists(_step(METADATA_CHANGE_LOG_EVENT_V1_TYPE, names), min_size=1, max_size=3)


def steps_on_entity_changes() -> st.SearchStrategy[list[tuple[Wanted, Any]]]:
    names = ["entityType", "category", "operation", "modifier", "parameters", "auditStamp", "version", "no such field"]
    return st.lists(_step(ENTITY_CHANGE_EVENT_V1_TYPE, names), min_size=1, max_size=3)
