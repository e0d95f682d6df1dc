"""Patterns of users take linear time."""

from __future__ import annotations

import pytest

from penstock.config.source import KafkaSourceConfig
from penstock.config.trigger import check_kafka
from penstock.core.pattern import MAX_LENGTH, Pattern

CATASTROPHIC = ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*a){20}$", "^((a*)*)*$", "^(a?){200}a{200}$", r"^(\w+\s?)*$"]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_a_pattern_that_backtracks_exponentially_elsewhere_answers_at_once(pattern: str) -> None:
    source = KafkaSourceConfig.model_validate({"topic_pattern": pattern, "format": "json"})
    assert source.subscribed(["a" * 248 + "-"]) == [], "elsewhere this takes years"


@pytest.mark.parametrize("pattern", ["^(?=a)b", "^(?<!a)b", r"^(a)\1", "^a++", "^a[", "^(a{1000}){1000}", "^(" * 400])
def test_what_needs_more_than_linear_time_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"no look-around, no back-references"):
        KafkaSourceConfig.model_validate({"topic_pattern": pattern, "format": "json"})


def test_a_pattern_has_a_length() -> None:
    with pytest.raises(ValueError, match=f"at most {MAX_LENGTH} characters"):
        Pattern("^" + "a" * MAX_LENGTH)


@pytest.mark.parametrize(
    ("pattern", "topic", "found"),
    [
        ("^orders", "orders-eu", 1),  # as the client does it: from the beginning, not to the end
        ("^orders$", "orders-eu", 0),
        ("^orders[.](eu|us)$", "orders.eu", 1),
        (r"^\w+-\d{2}$", "orders-07", 1),
        ("^(?i)ORDERS$", "orders", 1),
        ("^(?P<name>a|b)c", "bc", 1),
    ],
)
def test_patterns_mean_what_they_meant(pattern: str, topic: str, found: int) -> None:
    source = KafkaSourceConfig.model_validate({"topic_pattern": pattern, "format": "json"})
    assert source.subscribed([topic]) == [topic] * found


def test_triggers_take_the_same_patterns() -> None:
    checked = check_kafka({"hosts": [["k", "9092"]], "topic_pattern": "^(?=a)b"})
    assert any("no look-around" in error.message for error in checked.errors)
