"""Stretches: what is open of a part of a partition, also after a worker's death."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import Record
from penstock.engine.replay.segment import ReplaySegment
from penstock.pipeline.messages import PartitionOutcome


def letters(*offsets: int) -> ReplaySegment:
    found = {offset: Record("t", 0, offset) for offset in offsets}
    return ReplaySegment("t", 0, 0, "id", offsets[0], end=offsets[-1] + 1, records=found)


def test_a_range_is_over_when_its_end_is_reached_and_nothing_is_open() -> None:
    stretch = ReplaySegment("t", 0, 0, "id", 10, end=20)
    assert not stretch.finished
    stretch.advance(PartitionOutcome("t", 0, 0, 20, (12,)))
    assert not stretch.finished
    stretch.advance(PartitionOutcome("t", 0, 0, 20))
    assert stretch.finished


def test_letters_are_open_until_the_frontier_has_passed_them() -> None:
    stretch = letters(3, 1_000_000_000, 2_000_000_000)
    stretch.advance(PartitionOutcome("t", 0, 0, 1_000_000_001, (3,)))
    assert stretch.open == {3, 2_000_000_000}
    assert [record.offset() for record in stretch.given()] == [3, 2_000_000_000]
    stretch.finish(2_000_000_000)
    assert stretch.open == {3}
    stretch.finish(3)
    assert stretch.finished


def test_a_letter_is_found_behind_a_gap() -> None:
    found = letters(3, 9).record_from(4)
    assert found is not None
    assert found.offset() == 9
    assert letters(3, 9).record_from(10) is None


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 60))
def test_one_letter_is_finished_and_no_other(places: set[int], offset: int) -> None:
    stretch = letters(*sorted(places))
    stretch.finish(offset)
    assert stretch.open == places - {offset}
