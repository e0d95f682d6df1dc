"""Numbers, times and bytes for people."""

from __future__ import annotations

import pytest

from penstock.console import words


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "—"), (0, "0"), (9_999, "9,999"), (12_345, "12.3 k"), (4_100_000, "4.1 M")]
)
def test_short(value: int | None, shown: str) -> None:
    assert words.short(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0, "0/s"), (0.25, "0.2/s"), (42.4, "42/s"), (15_000, "15.0 k/s")])
def test_rate(value: float, shown: str) -> None:
    assert words.rate(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(None, "—"), (0, "0 %"), (0.00001, "< 0.1 %"), (0.125, "12.5 %")])
def test_share(value: float | None, shown: str) -> None:
    assert words.share(value) == shown


@pytest.mark.parametrize(
    ("passed", "shown"), [(3, "just now"), (44, "40 s ago"), (61, "1 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")]
)
def test_ago(passed: float, shown: str) -> None:
    assert words.ago(1_000_000, now=1_000_000 + passed) == shown


def test_hex_is_bounded_and_shows_plain_letters() -> None:
    assert words.hex_dump(b"ab\x00").endswith("ab.")
    assert words.hex_dump(b"") == "(no bytes)"
    assert words.hex_dump(bytes(words.HEX_BYTES + 5)).endswith("… 5 more bytes")


def test_text_shows_what_would_hide_itself() -> None:
    assert words.text_of("a\u202eb\x1b[31m".encode()) == "a\\u202eb\\x1b[31m"
    assert words.text_of(b"\xff") is None
    assert words.text_of(None) == "null"


def test_json_is_edited_with_its_marks_escaped_and_means_the_same() -> None:
    assert words.editable('{"a": "\u202e"}'.encode()) == '{"a": "\\u202e"}'


def test_text_that_hides_something_is_edited_as_hex() -> None:
    assert words.editable("plain \u202e".encode()) is None
    assert words.editable(b"a\r\nb") is None
    assert words.editable(b"\xff") is None
    assert words.editable(b"plain") == "plain"
    assert words.editable(None) == ""
