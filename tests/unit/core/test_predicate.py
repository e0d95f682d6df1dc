"""DataHub's matching rule: the table by example, and a slow literal reading of it as the measure for any input."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.predicate import compile_predicate, never_matching


def reference(want: Any, have: Any) -> bool:
    """The rule table, word by word."""
    if isinstance(want, dict):
        if isinstance(have, str):
            try:
                have = json.loads(have)
            except ValueError:
                return False
        if not isinstance(have, dict):
            return False
        return all(reference(inner, have.get(key)) for key, inner in want.items())
    if isinstance(want, list):
        return isinstance(have, str) and any(item == have for item in want)
    return bool(want == have)


@pytest.mark.parametrize(
    ("want", "have", "expected"),
    [
        ({}, {}, True),
        ({}, {"a": 1}, True),
        ({}, "{}", True),
        ({}, [], False),
        ({}, None, False),
        ({}, "text", False),
        ({"a": None}, {}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"a": 0}, False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": "X"}, {"a": "x"}, False),
        ({"a": ["x", "y"]}, {"a": "y"}, True),
        ({"a": ["x", "y"]}, {"a": "z"}, False),
        ({"a": [1, 2]}, {"a": 1}, False),
        ({"a": [None]}, {}, False),
        ({"a": [True]}, {"a": True}, False),
        ({"a": ["x"]}, {"a": ["x"]}, False),
        ({"a": []}, {"a": "x"}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"b": 1}}, {"a": '{"b": 1}'}, True),
        ({"a": {"b": {"c": "x"}}}, {"a": '{"b": "{\\"c\\": \\"x\\"}"}'}, True),
        ({"a": {"b": None}}, {"a": {}}, True),
        ({"a": {"b": None}}, {}, False),
        ({"a": {"b": 1}}, {"a": [{"b": 1}]}, False),
        ({"a": {"b": 1}}, {"a": "[1]"}, False),
        ({"a": {"b": 1}}, {"a": "{broken"}, False),
        ({"a": {"b": 12345678901234567890123}}, {"a": '{"b": 12345678901234567890123}'}, True),
    ],
)
def test_the_table(want: Any, have: Any, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert reference(want, have) is expected, "the reference itself"
    assert compile_predicate(want)(have) is expected


keys = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["a", "b", "1", "{}", ""])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, 1.5]), texts)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3))


json_values = st.recursive(scalars, nested)
haves = st.recursive(st.one_of(scalars, json_values.map(json.dumps)), nested)
wants = st.dictionaries(keys, json_values, max_size=3)


@settings(max_examples=1_000)
@given(want=wants, have=haves)
def test_compiled_predicates_answer_as_the_rule_does(want: dict[str, Any], have: Any) -> None:
    assert compile_predicate(want)(have) is reference(want, have)


@settings(max_examples=300)
@given(have=st.dictionaries(keys, json_values, max_size=3), data=st.data())
def test_predicates_taken_from_an_event_match_it(have: dict[str, Any], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(have)), unique=True)) if have else []
    want = {key: have[key] for key in chosen if not isinstance(have[key], (list, dict))}
    assert compile_predicate(want)(have)
    assert compile_predicate({"a": want})({"a": json.dumps(have)})


def test_what_json_has_no_form_for_is_compared_as_its_text() -> None:
    test = compile_predicate({"aspect": {"value": {"name": ["orders"]}}, "id": "abc"})
    assert test({"aspect": {"value": b'{"name": "orders"}'}, "id": b"abc"})
    assert not test({"aspect": {"value": b"\xff\xfe"}, "id": b"abc"})
    assert compile_predicate({"at": "2026-01-02T00:00:00"})({"at": dt.datetime(2026, 1, 2)})  # noqa: DTZ001 - as Avro gives it


def test_predicates_that_can_never_match_are_named() -> None:
    day = dt.date(2026, 1, 1)
    said = list(never_matching({"a": [1, 2], "b": {"c": day, "d": []}, "e": ["x", 3], "f": "fine", "g": {}}))
    assert [line.split(":")[0] for line in said] == ["`event.a`", "`event.b.c`", "`event.b.d`", "`event.e`"]
    assert compile_predicate({"c": day})({"c": day}) is False
