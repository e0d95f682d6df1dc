"""What a reset skips and repeats, and what skipping an event leaves: counted against plain sets of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commit_metadata import OpenRetry, decode, encode
from penstock.service.offsets import _move
from penstock.service.skipping import without

END = 60
OFFSETS = st.integers(0, END)


@st.composite
def commits(draw: st.DrawFn) -> tuple[int, str, set[int]]:
    """A committed offset, its metadata, and the offsets that are finished."""
    next_offset = draw(OFFSETS)
    pending = sorted(draw(st.sets(st.integers(0, max(0, next_offset - 1)), max_size=8))) if next_offset else []
    position = min(pending, default=next_offset)
    return position, encode("t", position, next_offset, pending), set(range(next_offset)) - set(pending)


@given(commits(), OFFSETS, OFFSETS)
def test_skipped_and_repeated_are_what_changes_hands(commit: tuple[int, str, set[int]], new: int, low: int) -> None:
    position, metadata, finished = commit
    log = set(range(low, END))
    move = _move(("orders", 0), (position, metadata), max(new, low), (low, END))
    after = set(range(max(new, low)))
    assert move.skipped == len((after - finished) & log)
    assert move.repeated == len((finished - after) & log)


@given(commits(), st.lists(OFFSETS, min_size=1, max_size=3))
def test_skipping_finishes_exactly_these_events(commit: tuple[int, str, set[int]], events: list[int]) -> None:
    position, metadata, finished = commit
    offset, text = without(position, metadata, "t", events)
    note = decode(offset, text)
    assert set(range(note.next_offset)) - set(note.pending) == finished | set(events)
    assert (note.topic_id, offset) == ("t", min(note.pending, default=note.next_offset))


def test_retries_of_other_events_stay_open() -> None:
    retries = [OpenRetry(3, 2, 1_000, 5_000), OpenRetry(5, 1, 2_000, 9_000)]
    offset, text = without(3, encode("t", 3, 8, [3, 5], retries), "t", [3])
    note = decode(offset, text)
    assert (offset, note.pending, [retry.offset for retry in note.retries]) == (5, (5,), [5])
