"""Segments: what is unfinished of a part of a partition, also after a worker's death."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import Record
from penstock.engine.replay.work import ReplaySegment
from penstock.pipeline.messages import PartitionOutcome, Retry
from tests.unit.engine.lanes.doubles import Time


def letters(*offsets: int) -> ReplaySegment:
    found = {offset: Record("t", 0, offset) for offset in offsets}
    return ReplaySegment("t", 0, "id", offsets[0], end=offsets[-1] + 1, records=found)


def test_a_range_is_over_when_its_end_is_reached_and_nothing_is_pending() -> None:
    segment = ReplaySegment("t", 0, "id", 10, end=20)
    assert not segment.finished
    segment.advance(PartitionOutcome("t", 0, 0, 20, (12,)))
    assert not segment.finished
    segment.advance(PartitionOutcome("t", 0, 0, 20))
    assert segment.finished


def test_records_are_open_until_the_next_offset_has_passed_them() -> None:
    segment = letters(3, 1_000_000_000, 2_000_000_000)
    segment.advance(PartitionOutcome("t", 0, 0, 1_000_000_001, (3,)))
    assert segment.open == {3, 2_000_000_000}
    assert [record.offset() for record in segment.given()] == [3, 2_000_000_000]
    segment.finish(2_000_000_000)
    assert segment.open == {3}
    segment.finish(3)
    assert segment.finished


def test_a_record_is_found_behind_a_gap() -> None:
    found = letters(3, 9).record_from(4)
    assert found is not None
    assert found.offset() == 9
    assert letters(3, 9).record_from(10) is None


@given(
    places=st.sets(st.integers(0, 60), min_size=1),
    named=st.sets(st.integers(0, 60)),
    alone=st.booleans(),
    logged=st.booleans(),
)
def test_f03_a_death_finishes_nothing(places: set[int], named: set[int], *, alone: bool, logged: bool) -> None:
    segment = letters(*sorted(places))
    segment.suspect(named & places, alone=alone, logged=logged)
    assert segment.open == places
    assert (segment.next_offset, segment.pending) == (min(places), ())


def test_one_that_kills_twice_alone_is_the_killer_and_what_lies_before_it_is_done_first() -> None:
    segment = letters(3, 5, 9, 12)
    segment.suspect({5, 9}, alone=False, logged=True)
    assert (segment.isolated, segment.killer) == (True, None)
    segment.suspect({9}, alone=True, logged=True)
    assert segment.killer == 9
    assert not segment.at_killer
    assert [record.offset() for record in segment.given()] == [3, 5]
    segment.advance(PartitionOutcome("t", 0, 0, 6))
    assert segment.at_killer
    segment.finish_killer(9)
    assert segment.open == {12}


def test_another_one_than_the_suspects_is_not_taken_for_the_killer() -> None:
    segment = letters(3, 5, 9)
    segment.suspect({5}, alone=False, logged=True)
    segment.suspect({9}, alone=True, logged=True)
    assert segment.killer is None
    segment.suspect({9}, alone=False, logged=True)
    assert segment.killer is None, "others ran beside it"


def test_a_range_stops_before_its_killer_whatever_the_gap() -> None:
    segment = ReplaySegment("t", 0, "id", 0, end=5_000_000_000)
    segment.suspect({3_000_000_000}, alone=False, logged=True)
    segment.suspect({3_000_000_000}, alone=True, logged=True)
    assert segment.stop_at == 3_000_000_000
    segment.advance(PartitionOutcome("t", 0, 0, 3_000_000_000))
    assert segment.at_killer
    segment.finish_killer(3_000_000_000)
    assert (segment.next_offset, segment.pending, segment.stop_at) == (3_000_000_001, (), 5_000_000_000)


def test_a_killer_among_pending_events_need_not_wait() -> None:
    segment = ReplaySegment("t", 0, "id", 0, end=20)
    segment.advance(PartitionOutcome("t", 0, 0, 10, (2, 4)))
    for alone in (False, True):
        segment.suspect({4}, alone=alone, logged=True)
    assert segment.at_killer
    segment.finish_killer(4)
    assert (segment.next_offset, segment.pending) == (10, (2,))


def test_without_a_log_the_killer_is_found_one_event_at_a_time() -> None:
    segment = ReplaySegment("t", 0, "id", 0, end=20)
    segment.suspect((), alone=False, logged=False)
    assert segment.few == 1
    segment.advance(PartitionOutcome("t", 0, 0, 1))
    assert segment.few == 2
    segment.suspect((), alone=True, logged=False)
    assert (segment.few, segment.killer) == (1, None)
    segment.suspect((), alone=True, logged=False)
    assert segment.killer == 1


def test_suspects_stay_alone_until_they_are_finished() -> None:
    segment = ReplaySegment("t", 0, "id", 0, end=20)
    segment.suspect({7}, alone=False, logged=True)
    segment.advance(PartitionOutcome("t", 0, 0, 5))
    assert segment.isolated
    segment.advance(PartitionOutcome("t", 0, 0, 8))
    assert not segment.isolated


def test_a_retry_waits_for_what_is_left_of_its_time() -> None:
    time = Time()
    segment = ReplaySegment("t", 0, "id", 0, end=20, clock=time.clock)
    segment.advance(PartitionOutcome("t", 0, 0, 5, (3,), (Retry(3, 1, 0, 10.0),), blocked_for=10.0))
    assert not segment.ready(time.now)
    time._pass(4.0)
    (retry,) = segment.assignment().retries
    assert retry.wait == pytest.approx(6.0)
