"""The filters as pipelines use them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.core.expression import ExpressionError
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import check_config
from penstock.filter.registry import filters
from tests.support.events import make_event

CTX = PipelineContext("p")
MCL, ECE = "MetadataChangeLogEvent_v1", "EntityChangeEvent_v1"


class Typed:
    """An event object that only knows its JSON text, as DataHub's classes do."""

    def __init__(self, text: str) -> None:
        self.text = text

    def as_json(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("config", "event_type", "passes"),
    [
        ({ECE: {"event": [{"category": "TAG"}]}}, ECE, True),
        ({ECE: {"event": [{"category": "OWNER"}]}}, ECE, False),
        ({ECE: {"event": [{"category": "OWNER"}, {"operation": ["ADD", "REMOVE"]}]}}, ECE, True),
        ({ECE: {"event": [{"category": "TAG", "operation": "REMOVE"}]}}, ECE, False),
        ({ECE: None}, ECE, True),
        ({ECE: {}}, ECE, True),
        ({ECE: {"event": []}}, ECE, False),
        ({ECE: {"event": [{}]}}, ECE, True),
        ({MCL: None}, ECE, False),
        ({MCL: None, ECE: None}, ECE, True),
        ({}, ECE, False),
    ],
)
def test_event_type(config: dict[str, Any], event_type: str, passes: bool) -> None:  # noqa: FBT001 - a column of the table
    event = make_event({"category": "TAG", "operation": "ADD"}, event_type=event_type)
    assert filters.create("event_type", {"filter": config}, CTX).matches(event) is passes


def test_event_type_refuses_a_map_where_a_list_is_meant() -> None:
    with pytest.raises(ConfigError, match=r"filter\.X\.event"):
        filters.create("event_type", {"filter": {"X": {"event": {"category": "TAG"}}}}, CTX)


def test_match_reads_values_and_typed_events_alike() -> None:
    chosen = filters.create("match", {"event": {"status": ["paid", "shipped"], "customer": {"vip": True}}}, CTX)
    assert chosen.matches(make_event({"status": "paid", "customer": {"vip": True}}))
    assert not chosen.matches(make_event({"status": "new", "customer": {"vip": True}}))
    assert not chosen.matches(make_event([1, 2]))
    typed = make_event({"status": "new"})
    typed.event = Typed('{"status": "shipped", "customer": {"vip": true}}')
    assert chosen.matches(typed)


def test_match_may_ask_for_the_event_type_too() -> None:
    chosen = filters.create("match", {"event": {}, "event_type": ["A", "B"]}, CTX)
    assert chosen.matches(make_event({}, event_type="B"))
    assert not chosen.matches(make_event({}, event_type="C"))


def test_cel() -> None:
    chosen = filters.create("cel", {"expression": "event.total > 100.0"}, CTX)
    assert chosen.matches(make_event({"total": 120}))
    assert not chosen.matches(make_event({"total": 99.5}))
    with pytest.raises(ExpressionError):
        chosen.matches(make_event({}))
    with pytest.raises(ExpressionError, match="gave a str, and a filter wants true or false"):
        filters.create("cel", {"expression": "topic"}, CTX).matches(make_event({}))


def test_validation_without_creation_compiles_expressions() -> None:
    check_config(filters.resolve("cel"), {"expression": "event.total > 100.0"})
    with pytest.raises(ConfigError, match=r"`expression`.*did you mean `event`"):
        check_config(filters.resolve("cel"), {"expression": "evet.total > 100.0"})
    with pytest.raises(ConfigError, match="`expression` is required"):
        check_config(filters.resolve("cel"), None)
