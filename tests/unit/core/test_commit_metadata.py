"""Commit metadata: what is encoded comes back, and what is damaged never skips an unfinished offset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commit_metadata import METADATA_LIMIT, PENDING_LIMIT, Note, OpenRetry, decode, encode

POSITION = 1_000
P1 = "p1;topic-id;1.2.1.3;2.5.s44we8.1e"


@st.composite
def encoded(draw: st.DrawFn) -> tuple[int, str]:
    """A position whose offset is unfinished, and its metadata."""
    position = draw(st.integers(0, 2**40))
    finished = draw(st.lists(st.booleans(), min_size=1, max_size=60))
    pending = [position, *(position + 1 + i for i, done in enumerate(finished) if not done)]
    retries = [OpenRetry(offset, 2, 1_700_000_000_000, 1_700_000_060_000) for offset in pending[:3]]
    return position, encode("9Ga-uT_4RNiSSQ", position, position + 1 + len(finished), pending, retries)


def _replaced(text: str, at: int, with_: str) -> str:
    return text[:at] + with_ + text[at + len(with_) :]


CORRUPTIONS: list[Callable[[str, int, int, str], str]] = [
    lambda text, a, _b, some: _replaced(text, a, some[:1]),
    lambda text, a, _b, some: _replaced(text, a, some),
    lambda text, a, _b, some: text[:a] + some + text[a:],
    lambda text, a, b, _some: text[: min(a, b)] + text[max(a, b) :],
    lambda text, a, _b, _some: text[:a],
    lambda text, a, b, _some: text[: min(a, b)] + text[min(a, b) : max(a, b)][::-1] + text[max(a, b) :],
    lambda text, a, _b, some: _replaced(text.upper(), a, some),
    lambda text, _a, _b, _some: text.replace("|", ";"),
    lambda text, _a, _b, _some: "p1;" + text[11:].replace("|", ";", 1),
]


@given(
    encoded(),
    st.sampled_from(CORRUPTIONS),
    st.integers(0, 200),
    st.integers(0, 200),
    st.text("0123456789abcz.|;-_ p\x00é", min_size=1, max_size=6),
)
def test_i01_damaged_metadata_repeats_from_the_committed_offset(
    commit: tuple[int, str], corrupt: Callable[[str, int, int, str], str], a: int, b: int, some: str
) -> None:
    position, text = commit
    damaged = corrupt(text, a % len(text), b % len(text), some)
    note = decode(position, damaged)
    if damaged == text:
        assert note.damaged is None
        return
    assert (note.topic_id, note.next_offset, note.pending, note.retries) == (None, position, (), ())
    assert (note.damaged is not None) == damaged.startswith("p")


@given(encoded(), st.integers(-500, 500).filter(bool))
def test_i01_metadata_of_another_offset_is_not_used(commit: tuple[int, str], moved: int) -> None:
    position, text = commit
    note = decode(position + moved, text)
    assert (note.topic_id, note.next_offset, note.pending) == (None, position + moved, ())
    assert note.damaged is not None
    assert "checksum" in note.damaged


def test_the_former_version_is_still_read() -> None:
    note = decode(POSITION, P1)
    assert note == Note("topic-id", 1007, (1000, 1003), (OpenRetry(1002, 5, 1_700_000_000_000, 1_700_000_050_000),))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p3|0000000|id||", "no known version"),
        ("p", "no known version"),
        ("p1;only-one", "2 fields|1 fields"),
        ("p1;id;not base 36!;", "not base 36"),
        ("p1;id;-5.9;", "not base 36"),
        ("p1;id;1_0.9;", "not base 36"),
        ("p1;id;zzzzzzz.1;", "unfinished offsets"),
    ],
)
def test_what_looks_like_ours_and_cannot_be_used_says_why(text: str, reason: str) -> None:
    note = decode(42, text)
    assert (note.topic_id, note.next_offset, note.pending) == (None, 42, ())
    assert note.damaged is not None
    assert any(part in note.damaged for part in reason.split("|"))


@pytest.mark.parametrize("text", ["", "leader=7", "{}"])
def test_metadata_of_another_client_is_not_called_damaged(text: str) -> None:
    assert decode(42, text) == Note(None, 42)


def test_what_implies_too_many_unfinished_offsets_is_left_out() -> None:
    pending = [*range(PENDING_LIMIT), PENDING_LIMIT + 1]
    note = decode(0, encode("id", 0, PENDING_LIMIT + 10, pending))
    assert note.damaged is None
    assert note.next_offset == PENDING_LIMIT + 1
    pending = [*range(PENDING_LIMIT + 1)]
    assert decode(0, encode("id", 0, PENDING_LIMIT + 10, pending)) == Note("id", 0)


def test_the_checksum_is_within_the_limit() -> None:
    text = encode("id", 0, 20_000, range(0, 20_000, 2))
    assert METADATA_LIMIT - 10 < len(text) <= METADATA_LIMIT
    assert decode(0, text).damaged is None


def test_a_retry_below_the_position_is_left_out() -> None:
    retries = [OpenRetry(offset, 1, 1_700_000_000_000, 1_700_000_001_000) for offset in (3, 6)]
    assert [retry.offset for retry in decode(5, encode("id", 5, 7, (5, 6), retries)).retries] == [6]


def test_offsets_that_contradict_each_other_are_refused() -> None:
    """They once were an endless loop."""
    with pytest.raises(ValueError, match="is no offset"):
        encode("id", 5, 9, (3, 8))
