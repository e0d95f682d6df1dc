"""Java's properties syntax, as `java.util.Properties` reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.java_properties import decode_properties, parse_properties


def pairs(text: str) -> list[tuple[str, str, int]]:
    found = parse_properties(text)
    assert found.problems == []
    return [(entry.key, entry.value, entry.line) for entry in found.entries]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b", 1)]),
        ("a:b", [("a", "b", 1)]),
        ("a b", [("a", "b", 1)]),
        ("a\t = \f b ", [("a", "b ", 1)]),
        ("  a = = b", [("a", "= b", 1)]),
        ("a", [("a", "", 1)]),
        ("= b", [("", "b", 1)]),
        ("a==b", [("a", "=b", 1)]),
        ("a=b:c=d", [("a", "b:c=d", 1)]),
        (r"a\:b\=c\ d=e", [("a:b=c d", "e", 1)]),
        ("# a=b\n ! c=d\n\n  \ne=f", [("e", "f", 5)]),
        ("a=b\r\nc=d\re=f\n", [("a", "b", 1), ("c", "d", 2), ("e", "f", 3)]),
        ("a=b,\\\n    c,\\\n\td\ne=f", [("a", "b,c,d", 1), ("e", "f", 4)]),
        ("a=b\\\\\nc=d", [("a", "b\\", 1), ("c", "d", 2)]),
        ("a=b\\\\\\\nc", [("a", "b\\c", 1)]),
        ("a=b\\\n# c", [("a", "b# c", 1)]),
        ("a=b\\\n\nc=d", [("a", "b", 1), ("c", "d", 3)]),
        ("a=b\\", [("a", "b", 1)]),
        (r"a=\t\n\r\f\q\"", [("a", '\t\n\r\fq"', 1)]),
        (r"a=\u00e9\u20AC\ud83d\ude00", [("a", "é€😀", 1)]),
        ("a=1\na=2", [("a", "1", 1), ("a", "2", 2)]),
        ("", []),
    ],
)
def test_lines(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert pairs(text) == expected


def test_a_bad_escape_leaves_the_other_lines() -> None:
    found = parse_properties("a=1\nb=\\u12G4\nc=\\u12\nd=4")
    assert [entry.key for entry in found.entries] == ["a", "d"]
    wanted = "\\u is not followed by four hexadecimal digits"
    assert found.problems == [(2, wanted), (3, wanted)]


def test_old_files_are_latin_1() -> None:
    assert decode_properties("a=é".encode("latin-1")) == "a=é"
    assert decode_properties("﻿a=é€".encode()) == "a=é€"


def escaped(text: str, special: str) -> str:
    out = "".join(
        {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}.get(c, f"\\{c}" if c in special else c) for c in text
    )
    return f"\\{out}" if out.startswith(" ") else out


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_what_is_written_as_java_does_is_read_again(entries: list[tuple[str, str]]) -> None:
    lines = [escaped(key, "\\=: #!") + "=" + escaped(value, "\\=:#!") for key, value in entries]
    assert [(key, value) for key, value, _ in pairs("\n".join(lines))] == entries
