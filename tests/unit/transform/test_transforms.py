"""The transforms as pipelines use them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError, PluginError
from penstock.core.expression import ExpressionError
from penstock.core.plugin import PipelineContext
from penstock.transform.fields import NotAMapError
from penstock.transform.registry import transforms
from tests.support.events import make_event

CTX = PipelineContext("p")
VALUE = {
    "id": 1,
    "customer": {"name": "Ann", "email": "ann@example.org", "home": {"city": "X", "zip": 1}},
    "tags": [{"a": 1}],
}


def test_drop_and_keep_follow_dotted_paths_and_leave_the_event_alone() -> None:
    event = make_event(VALUE)
    dropped = transforms.create("drop", {"fields": ["customer.email", "customer.home.zip", "nope.x", "tags.a"]}, CTX)
    assert dropped.transform(event).value == {  # type: ignore[union-attr]  # never None
        "id": 1,
        "customer": {"name": "Ann", "home": {"city": "X"}},
        "tags": [{"a": 1}],
    }
    kept = transforms.create("keep", {"fields": ["id", "customer.home.city", "nope", "id.x"]}, CTX)
    assert kept.transform(event).value == {"id": 1, "customer": {"home": {"city": "X"}}}  # type: ignore[union-attr]  # as above
    assert event.value == VALUE
    assert kept.transform(event).record is event.record  # type: ignore[union-attr]  # as above


def test_a_value_without_fields_is_a_failure() -> None:
    for name in ("drop", "keep"):
        with pytest.raises(NotAMapError, match="is a list and has no fields"):
            transforms.create(name, {"fields": ["a"]}, CTX).transform(make_event([1]))
    with pytest.raises(ConfigError, match="`fields`"):
        transforms.create("drop", {"fields": []}, CTX)


names = st.sampled_from("abc")
trees = st.dictionaries(names, st.recursive(st.integers(0, 9), lambda inner: st.dictionaries(names, inner)))


@given(value=trees, paths=st.lists(st.lists(names, min_size=1, max_size=3).map(".".join), min_size=1))
def test_drop_and_keep_share_out_an_events_leaves(value: dict[str, object], paths: list[str]) -> None:
    def leaves(tree: object, above: str = "") -> set[str]:
        if not isinstance(tree, dict) or not tree:
            return {above}
        return set().union(*(leaves(inner, f"{above}.{name}") for name, inner in tree.items()))

    def below(leaf: str) -> bool:
        return any(f"{leaf}.".startswith(f".{path}.") for path in paths)

    event = make_event(value)
    kept = transforms.create("keep", {"fields": paths}, CTX).transform(event)
    dropped = transforms.create("drop", {"fields": paths}, CTX).transform(event)
    assert kept
    assert dropped
    wanted = {leaf for leaf in leaves(value) if below(leaf)}
    assert wanted <= leaves(kept.value)
    assert leaves(value) - wanted <= leaves(dropped.value) | {""}
    assert not any(below(leaf) for leaf in leaves(dropped.value))


def test_map_replaces_or_merges() -> None:
    fields = {"who": "event.customer.name", "at": "offset"}
    made = transforms.create("map", {"fields": fields}, CTX).transform(make_event(VALUE))
    assert made
    assert made.value == {"who": "Ann", "at": 41}
    merging = transforms.create("map", {"fields": {"id": "event.id + 1"}, "mode": "merge"}, CTX)
    merged = merging.transform(make_event(VALUE))
    assert merged
    assert merged.value == VALUE | {"id": 2}
    with pytest.raises(ExpressionError, match="no field 'customer'"):
        transforms.create("map", {"fields": fields}, CTX).transform(make_event({}))


FUNCTIONS = """
def value(event):
    return {"twice": event.event["n"] * 2}

def with_config(event, config):
    return event.value["n"] + config["add"]

def drop(event):
    return None

def same(event):
    event.meta["seen"] = True
    return event

def body(event):
    return event.event

async def later(event):
    return event

def three(a, b, c):
    return a
"""


def test_python_functions(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    ctx = PipelineContext("p", folder=str(tmp_path))

    def run(name: str, **config: object) -> object:
        event = make_event({"n": 4})
        result = transforms.create("python", {"callable": f"functions.py:{name}", **config}, ctx).transform(event)
        return "same" if result is event else result and result.value

    assert run("value") == {"twice": 8}
    assert run("with_config", config={"add": 3}) == 7
    assert run("drop") is None
    assert run("same") == "same"
    assert run("body") == {"n": 4}
    with pytest.raises(PluginError, match="is async"):
        run("later")
    with pytest.raises(PluginError, match=r"its signature is \(a, b, c\)"):
        run("three")
    with pytest.raises(PluginError, match="did you mean `value`"):
        run("valu")


@pytest.mark.parametrize(
    ("config", "passes"),
    [
        ({"event_type": "A"}, True),
        ({"event_type": ["B", "A"], "event": {"n": 1}}, True),
        ({"event_type": "A", "event": {"n": 2}}, False),
        ({"event_type": "B"}, False),
        ({"event_type": "A", "event": {}}, True),
        ({"event_type": []}, False),
    ],
)
def test_the_legacy_filter(config: dict[str, object], passes: bool) -> None:  # noqa: FBT001 - a column of the table
    event = make_event({"n": 1}, event_type="A")
    assert transforms.create("__filter", config, CTX).transform(event) is (event if passes else None)
