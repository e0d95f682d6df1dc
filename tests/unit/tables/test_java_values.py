"""Numbers, texts and regular expressions mean what they mean in Java."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.tables.java_regex import java_pattern
from penstock.tables.java_values import INT, LONG, NotANumber, number, optional_text, strict, text


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(["", "+"]), st.integers(0, 30))
def test_every_long_is_read_with_sign_and_zeros(value: int, plus: str, zeros: int) -> None:
    digits = "0" * zeros + str(abs(value))
    written = f"-{digits}" if value < 0 else plus + digits
    assert number(written) == value
    assert strict(written, "n") == value


@given(st.text(max_size=25))
@example("1_000")
@example(" 1")
@example("1\n")
@example("\u0661")
@example("--1")
@example("0x10")
@example("1.0")
@example("")
@example("9" * 100_000)
def test_a_number_is_a_sign_and_ascii_digits_in_range_or_none(written: str) -> None:
    looks_like_one = re.fullmatch("[+-]?[0-9]{1,40}", written) is not None
    in_range = looks_like_one and -(2**63) <= int(written) < 2**63
    assert number(written) == (int(written) if in_range else None)
    if not in_range:
        with pytest.raises(NotANumber):
            strict(written, "n")


@pytest.mark.parametrize(
    ("written", "bits", "value"),
    [
        ("2147483647", INT, 2147483647),
        ("2147483648", INT, None),
        ("-2147483648", INT, -2147483648),
        ("-2147483649", INT, None),
        ("9223372036854775807", LONG, 9223372036854775807),
        ("9223372036854775808", LONG, None),
        ("-9223372036854775808", LONG, -9223372036854775808),
        (None, LONG, None),
    ],
)
def test_the_range_ends_where_the_type_ends(written: str | None, bits: int, value: int | None) -> None:
    assert number(written, bits) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (["a", "b"], "[a, b]"),
        ([], "[]"),
        ({"a": 1}, "{a=1}"),
        (7, "7"),
        (b"x", "x"),
    ],
)
def test_texts_are_java_s(value: object, shown: str) -> None:
    assert text(value) == shown
    assert optional_text(value) == (None if value is None else shown)
    assert optional_text("null") is None


# What java.util.regex (OpenJDK 17) answers: expression, text, where `find` finds, whether all of it matches.
AS_IN_JAVA = [
    (r"\d", "1", (0, 1), True),
    (r"\d", "\u0661", None, False),  # an Arabic digit
    (r"\w", "\u00e9", None, False),
    (r"\W", "\u00e9", (0, 1), True),
    (r"\s", "\u00a0", None, False),
    (r"\s", "\u2003", None, False),
    (r"\s", " ", (0, 1), True),
    (r"a$", "a\n", (0, 1), False),
    (r"a$", "a\r\n", (0, 1), False),
    (r"a$", "a\r", (0, 1), False),
    (r"a$", "a\u0085", (0, 1), False),
    (r"a$", "a\u2028", (0, 1), False),
    (r"a$", "a\n\n", None, False),
    (r"a$", "a", (0, 1), True),
    (r"$", "a\r\n", (1, 1), False),
    (r"a.", "a\n", None, False),
    (r"a.", "a\r", None, False),
    (r"a.", "a\u2028", None, False),
    (r"a.", "a\u000b", (0, 2), True),
    (r"(\b|_)tmp(\b|_)", "tmp\u00e9", None, False),  # a boundary knows all letters, \w does not
    (r"(\b|_)tmp(\b|_)", "\u00e9tmp", None, False),
    (r"(\b|_)tmp(\b|_)", "a_tmp", (1, 5), False),
    (r"(\b|_)tmp(\b|_)", "xtmp", None, False),
    (r"(?<name>a)", "a", (0, 1), True),
    (r"\Qa.b\E", "a.b", (0, 3), True),
    (r"\Qa.b\E", "axb", None, False),
    (r"[.$]", "$", (0, 1), True),
]


@pytest.mark.parametrize(("source", "searched", "found", "full"), AS_IN_JAVA)
def test_expressions_are_java_s(source: str, searched: str, found: tuple[int, int] | None, *, full: bool) -> None:
    pattern = java_pattern(source)
    match = pattern.find(searched)
    assert (match.span() if match else None) == found
    assert bool(pattern.full(searched)) == full
    assert pattern.find(None) is pattern.full(None) is pattern.start(None) is None


@given(st.text(alphabet="ab1_/-\u00e9\u0661\n\r", max_size=12))
def test_word_characters_are_ascii_whatever_the_text(searched: str) -> None:
    """`\\w+` finds exactly the first run of ASCII letters, digits and underscores."""
    match = java_pattern(r"\w+").find(searched)
    plain = re.search("[A-Za-z0-9_]+", searched)
    assert (match and match.span()) == (plain and plain.span())


@pytest.mark.parametrize("source", ["(", "[a&&[b]]", "[a[b]]", r"\p{L}", "a**"])
def test_what_cannot_be_used_is_refused(source: str) -> None:
    with pytest.raises(ConfigError) as refused:
        java_pattern(source)
    assert refused.value.received == source
