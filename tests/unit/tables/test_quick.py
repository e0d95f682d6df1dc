"""Reading quickly gives what reading the long way gives."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.event import Event, Record
from penstock.tables.columns import ColumnSpec, columns_of, converter
from penstock.tables.errors import ColumnError

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, 2**63]),
    st.floats(allow_nan=False),
    st.text(),
    st.sampled_from(["7", "true", "a\0b", "2026-01-01T00:00:00Z", b"bytes", b"\xff"]),
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.dictionaries(st.sampled_from("abc"), inner) | st.lists(inner, max_size=2)
)
_KINDS = ("text", "integer", "bigint", "float", "boolean", "decimal", "timestamp", "date", "json", "bytes")


@given(_VALUES, st.sampled_from(["a", "a.b", "a.b.c"]), st.sampled_from(_KINDS), st.sampled_from([None, "7"]))
@example({"a": True}, "a", "integer", None)
@example({"a": "text"}, "a.b", "text", None)
@example({"a": {"b": "a\0b"}}, "a.b", "text", None)
def test_quick_reading_is_reading(value: Any, path: str, kind: Any, default: str | None) -> None:
    spec = ColumnSpec.model_validate({"from": path, "type": kind, "default": default})
    (quick,) = columns_of({"column": spec}, {})
    # The same by an expression, which has no quick way.
    slow = type(quick)("column", spec.getter, kind, default)
    event = Event(Record("t", 0, 0), value)
    assert _read(quick.reader(converter(kind), kind), event) == _read(slow.reader(converter(kind), kind), event)


def _read(reader: Any, event: Event) -> Any:
    try:
        found = reader(event)
    except ColumnError as error:
        return str(error)
    return type(found), found
