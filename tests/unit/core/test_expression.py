"""CEL expressions: variables, missing fields, and errors at compile and at evaluation."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import uuid
from typing import Any

import pytest

from penstock.core.errors import ConfigError, Terminal
from penstock.core.expression import MAX_LENGTH, MAX_OPERATORS, Expression, ExpressionError
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


VALUE = {
    "a": {"b": {"c": 1}, "x": "s"},
    "list": [{"n": 1}],
    "text": "event.hidden",
    "big": list(range(50)),
    "none": None,
}


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("event.a.b.c > 0", {"a": {"b": {"c": None}}}),
        ("event.a.x.startsWith('s') && event.a.b.c == 1", {"a": {"x": None, "b": {"c": None}}}),
        ("event.a . b . c == 1 && has(event.a.b)", {"a": {"b": None}}),
        ("event.list[0].n == 1", {"list": None}),
        ("event.list.exists(e, e.n == 1)", {"list": None}),
        ("event.text == 'event.hidden'", {"text": None}),
        ("event['a'].x == 's'", None),
        ("size(event) > 2", None),
        ("event.size() > 2", None),
        ("event == event", None),
        ("meta.event.x == 1 || true", {}),
        ("event.text == r'\\d' || true", None),
        ("event.text != 'http://x' // it's", None),
    ],
)
def test_only_the_fields_that_are_read_are_handed_over(source: str, fields: Any) -> None:
    expression = Expression(source)
    assert expression._fields == fields
    assert expression(make_event(VALUE)) is True


def test_pruned_and_whole_events_give_the_same() -> None:
    for source in ("has(event.a.b.d)", "has(event.nope)", "event.none == null", "event.a == {'b': {'c': 1}, 'x': 's'}"):
        whole = Expression(source)
        whole._fields = None
        assert Expression(source)(make_event(VALUE)) == whole(make_event(VALUE)), source
    for source in ("event.text.inner == 1", "has(event.a.nope.deeper)", "event.a.x + 1"):
        with pytest.raises(ExpressionError) as pruned:
            Expression(source)(make_event(VALUE))
        whole = Expression(source)
        whole._fields = None
        with pytest.raises(ExpressionError) as complete:
            whole(make_event(VALUE))
        assert str(pruned.value) == str(complete.value)


def test_dates_and_uuids_of_avro_are_texts() -> None:
    event = make_event({})
    event.value = {"day": dt.date(2026, 1, 2), "id": uuid.UUID(int=5), "at": [dt.time(1, 2)]}
    assert Expression("event.day")(event) == "2026-01-02"
    assert Expression("event.id")(event) == "00000000-0000-0000-0000-000000000005"
    assert Expression("event")(event)["at"] == ["01:02:00"]


LONG = {
    "dots": "event" + ".a" * 24_000,
    "sum": "1" + "+1" * 24_000,
    "index": "event" + "[0]" * 24_000,
    "not": "!" * 24_000 + "true",
    "minus": "-" * 24_000 + "1",
    "in": "1" + " in 1" * 24_000,
    "choice": "true?1:" * 24_000 + "1",
    "brackets": "(" * 24_000 + "1" + ")" * 24_000,
    "calls": "size(" * 24_000 + "1" + ")" * 24_000,
    "methods": "event" + ".size()" * 24_000,
    "in a text": "'" + "." * 100_000 + "'",
}


@pytest.mark.parametrize("kind", ["Expression", "StateExpression"])
@pytest.mark.parametrize("form", LONG)
def test_an_expression_that_overflows_the_compilers_stack_is_refused(form: str, kind: str) -> None:
    """In a process of its own: without the limit it ends by SIGSEGV."""
    program = (
        "import sys\n"
        "from penstock.core.errors import ConfigError\n"
        f"from penstock.core.expression import {kind}\n"
        f"try: {kind}(sys.stdin.read())\n"
        "except ConfigError as error: print(error.message, error.received, error.allowed)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=LONG[form], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "is too long" in done.stdout
    assert len(done.stdout) < 500


@pytest.mark.parametrize(
    "source",
    [
        "event" + ".a" * MAX_OPERATORS,
        "event == 1" + " || event == 1" * (MAX_OPERATORS // 4 - 1),
        "event" + "[0]" * MAX_OPERATORS,
        "event.total in [" + ",".join(["1.5"] * 480) + "]",
        "'" + "a" * (MAX_LENGTH - 2) + "'",
    ],
)
def test_an_expression_within_the_limits_compiles_on_a_small_stack(source: str) -> None:
    """Half a megabyte, a sixteenth of what threads have on Linux."""
    failures: list[BaseException] = []

    def compiled() -> None:
        try:
            Expression(source)
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=compiled)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join(60)
    assert not failures
