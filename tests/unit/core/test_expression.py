"""CEL expressions: variables, missing fields, and errors at compile and at evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ConfigError, Terminal
from penstock.core.expression import Expression, ExpressionError
from tests.support.events import make_event

EVENT = make_event(
    {"total": 120.5, "items": [{"sku": "a", "n": 2}], "note": None, "name": "Ann"},
    headers=[("trace", b"one"), ("trace", b"two"), ("bin", b"\xff")],
)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("event.total > 100", True),
        ("event.total * 2.0", 241.0),
        ("event.items.exists(i, i.n > 1)", True),
        ("event.items.map(item, item.sku)", ["a"]),
        ("event.note == null", True),
        ("has(event.note)", True),
        ("has(event.absent)", False),
        ("has(event.absent) ? event.absent : 7", 7),
        ("key", "key-1"),
        ("headers.trace", "two"),
        ("headers['bin']", b"\xff"),
        ("topic + '/' + string(partition) + '@' + string(offset)", "orders/3@41"),
        ("timestamp", 1_755_000_000_000),
        ("event_type == 'JsonEvent'", True),
        ("meta.kafka.offset", 41),
        ("event.name.upperAscii()", "ANN"),
        ("math.greatest(event.total, 200.0)", 200.0),
        ("'evnt.x' == 'evnt.x'", True),
        ("{'a': event.name, 'b': [1, 2]}", {"a": "Ann", "b": [1, 2]}),
    ],
)
def test_results(source: str, result: Any) -> None:
    assert Expression(source)(EVENT) == result


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("event.total >", "is not a CEL expression: 1:14"),
        ("", "is not a CEL expression"),
        ("evnt.total > 1", "did you mean `event`?"),
        ("total > 1", "read as event.total"),
        ("event.name.startWith('A')", "did you mean `startsWith`?"),
        ("math.gratest(1, 2)", "no function `gratest`"),
    ],
)
def test_what_does_not_compile_is_a_configuration_error(source: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Expression(source)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("event.absent > 1", "there is no field 'absent' (has(…) asks whether a field is there)"),
        ("event.name + 1", "string + int"),
        ("1 / (event.items[0].n - 2)", "division by zero"),
        ("event.name.size() > 'a'", ""),
    ],
)
def test_what_cannot_be_evaluated_is_the_events_failure(source: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression(source)(EVENT)
    assert said in str(caught.value)
    assert isinstance(caught.value, Terminal)


def test_only_the_variables_that_are_named_are_built() -> None:
    event = make_event({"a": 1})
    assert Expression("event.a == 1")(event) is True
    assert event._meta is None
