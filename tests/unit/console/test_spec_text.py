"""Specs as stages."""

from __future__ import annotations

from penstock.console.spec_text import Stage, stages_of

SPEC = {
    "name": "orders",
    "source": {"type": "kafka", "config": {"topics": ["orders", "returns"], "format": "avro"}},
    "filters": [{"type": "cel", "config": {"expression": "a > 1"}}],
    "transform": [],
    "action": {"type": "table", "config": {"table": "orders"}},
}


def test_stages_in_the_order_of_the_flow() -> None:
    assert stages_of(SPEC) == [
        Stage("source", "orders, returns", "format avro"),
        Stage("filter", "cel"),
        Stage("action", "table", "orders"),
    ]


def test_a_spec_that_says_little_has_stages_too() -> None:
    assert [stage.kind for stage in stages_of({})] == ["source", "action"]
