"""Who looks at a pipeline gets its samples, no more than were asked for; who does not look costs nothing."""

from __future__ import annotations

import pytest

from penstock.core.clock import Clock
from penstock.engine.taps import Taps
from penstock.pipeline.samples import Allowance, Sample, TapStage


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.clock = Clock(monotonic=lambda: self.now)


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


def sample(stage: TapStage = "act", offset: int = 0) -> Sample:
    return Sample(stage, 0, "t", 0, offset, -1, None)


def test_nothing_is_wished_for_while_nobody_looks() -> None:
    taps = Taps()
    assert taps.wish("p", 1) is None
    tap = taps.open("p", ["act"], 10, 60)
    assert taps.wish("p", 1) is not None
    assert taps.wish("q", 1) is None
    tap.close()
    tap.close()
    assert taps.wish("p", 1) is None


def taken(taps: Taps, clock: _Clock, lanes: int, windows: int, seconds: float, *, hungry: bool = True) -> int:
    """Samples that units of so many lanes bring, one after the other, each taking all that it may."""
    began = {lane: (clock.now, taps.wish("p", lanes)) for lane in range(lanes)}
    total = 0
    for _ in range(windows):
        for lane in range(lanes):
            clock.now += seconds / lanes
            start, wish = began[lane]
            for stage, allowed in (wish or {}).items() if hungry else ():
                count = int(allowed.at_once + allowed.per_second * (clock.now - start))
                taps.give("p", [sample(stage)] * count)
                total += count
            began[lane] = clock.now, taps.wish("p", lanes)
    return total


@pytest.mark.parametrize("seconds", [0.05, 1.0, 2.0], ids=["short", "a second", "two seconds"])
@pytest.mark.parametrize("lanes", [1, 2, 6])
@pytest.mark.parametrize("per_second", [20, 1_000])
def test_as_many_samples_come_as_were_asked_for_whatever_windows_take(
    clock: _Clock, per_second: float, lanes: int, seconds: float
) -> None:
    taps = Taps(clock.clock)
    tap = taps.open("p", ["act", "decode"], per_second, 300)
    taken(taps, clock, lanes, int(10 / seconds), seconds)
    tap.take(10_000, 0)
    before = tap.dropped
    taken(taps, clock, lanes, int(20 / seconds), seconds)
    came = len(tap.take(100_000, 0)) + tap.dropped - before
    assert came == pytest.approx(20 * per_second, rel=0.1)


def test_what_was_not_taken_adds_up_to_two_seconds_and_no_more(clock: _Clock) -> None:
    taps = Taps(clock.clock)
    taps.open("p", ["act", "decode"], 20, 300)
    taken(taps, clock, 2, 60, 1.0, hungry=False)
    assert taps.wish("p", 2) == {stage: Allowance(10, 5) for stage in ("act", "decode")}, "lanes and stages share"


def test_few_samples_of_many_stages_come_now_and_then(clock: _Clock) -> None:
    taps = Taps(clock.clock)
    taps.open("p", ["act", "decode", "filter"], 1, 300)
    assert taken(taps, clock, 2, 60, 1.0) == pytest.approx(60, abs=9)


def test_who_asks_for_few_samples_is_not_flooded_by_who_asks_for_many(clock: _Clock) -> None:
    taps = Taps(clock.clock)
    few, many = taps.open("p", ["act"], 10, 300), taps.open("p", ["act", "decode"], 1_000, 300)
    taken(taps, clock, 1, 10, 1.0)
    assert len(few.take(10_000, 0)) == pytest.approx(110, abs=11)
    assert len(many.take(10_000, 0)) + many.dropped > 9_000


def test_each_looker_gets_its_stages_and_a_slow_one_the_newest(clock: _Clock) -> None:
    taps = Taps(clock.clock)
    acts, filters, other = (
        taps.open("p", ["act"], 1_000, 60),
        taps.open("p", ["filter"], 5_000, 60),
        taps.open("q", ["act"], 5, 60),
    )
    assert filters.per_second == 1_000
    taps.give("p", [sample("filter", 7)])
    for window in range(3):
        taps.give("p", [sample("act", 2_000 * window + n) for n in range(2_000)])
        clock.now += 2
    assert [each.offset for each in acts.take(2, 0)] == [2_000, 2_001]
    assert (acts.dropped, len(acts.take(5_000, 0))) == (2_000, 3_998)
    assert [(each.stage, each.offset) for each in filters.take(10, 0)] == [("filter", 7)]
    assert filters.take(10, 0.01) == []
    assert other.take(10, 0) == []


def test_a_tap_whose_looker_is_gone_ends_with_its_time(clock: _Clock) -> None:
    taps = Taps(clock.clock)
    taps.open("p", ["act"], 10, 30)
    clock.now += 29
    assert taps.wish("p", 1) is not None
    clock.now += 2
    assert taps.wish("p", 1) is None
    assert taps._open == {}
