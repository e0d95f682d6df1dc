"""Random Avro schemas, each with a value that fits it."""

from __future__ import annotations

import itertools
import string
from io import BytesIO
from typing import Any

import fastavro
from hypothesis import strategies as st

Pair = tuple[Any, Any]

_names = itertools.count()
_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_FIELD = st.text(string.ascii_lowercase, min_size=1, max_size=6)

PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": _TEXT,
}


def _primitive() -> st.SearchStrategy[Pair]:
    return st.sampled_from(sorted(PRIMITIVES)).flatmap(lambda name: PRIMITIVES[name].map(lambda value: (name, value)))


def _fixed(size: int) -> st.SearchStrategy[Pair]:
    schema = {"type": "fixed", "name": f"F{next(_names)}", "size": size}
    return st.binary(min_size=size, max_size=size).map(lambda value: (schema, value))


def _enum(symbols: list[str]) -> st.SearchStrategy[Pair]:
    schema = {"type": "enum", "name": f"E{next(_names)}", "symbols": symbols}
    return st.sampled_from(symbols).map(lambda value: (schema, value))


def _optional(pair: Pair) -> st.SearchStrategy[Pair]:
    schema, value = pair
    if schema == "null" or isinstance(schema, list):
        return st.just(pair)
    return st.sampled_from([(["null", schema], None), (["null", schema], value)])


def _record(fields: dict[str, Pair]) -> Pair:
    shape = [{"name": name, "type": schema} for name, (schema, _) in fields.items()]
    schema = {"type": "record", "name": f"R{next(_names)}", "namespace": "n", "fields": shape}
    return schema, {name: value for name, (_, value) in fields.items()}


def _takes_bytes(pair: Pair) -> bool:
    written = BytesIO()
    fastavro.schemaless_writer(written, *pair)
    return bool(written.getvalue())


def _containers(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        st.dictionaries(_FIELD, inner, max_size=4).map(_record),
        # One value or none: a second one would have to fit the same random schema.
        st.tuples(inner.filter(_takes_bytes), st.booleans()).map(
            lambda t: ({"type": "array", "items": t[0][0]}, [t[0][1]] if t[1] else [])
        ),
        st.tuples(_TEXT, inner).map(lambda t: ({"type": "map", "values": t[1][0]}, {t[0]: t[1][1]})),
        inner.flatmap(_optional),
    )


def pairs() -> st.SearchStrategy[Pair]:
    """(schema, value)."""
    leaves = st.one_of(
        _primitive(),
        st.integers(0, 8).flatmap(_fixed),
        st.lists(_FIELD, min_size=1, max_size=3, unique=True).flatmap(_enum),
    )
    return st.recursive(leaves, _containers, max_leaves=10)
