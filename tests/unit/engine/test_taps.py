"""Who looks at a pipeline gets its samples, no more than were asked for; who does not look costs nothing."""

from __future__ import annotations

import pytest

from penstock.engine import taps as module
from penstock.engine.taps import Taps
from penstock.worker.samples import Sample, TapStage, TapWish


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(module, "time", made)
    return made


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


def test_no_more_samples_are_asked_for_than_so_many_a_second(clock: _Clock) -> None:
    taps = Taps()
    taps.open("p", ["act", "decode"], 20, 300)
    assert taps.wish("p", 1) == TapWish(("act", "decode"), 10)
    assert taps.wish("p", 1) is None
    asked = 0
    for _ in range(100):
        clock.now += 0.1
        wish = taps.wish("p", 1)
        asked += wish.samples * 2 if wish else 0
    assert asked == pytest.approx(200, abs=4)
    clock.now += 60
    assert taps.wish("p", 2) == TapWish(("act", "decode"), 5), "what was not asked for does not add up; lanes share"


def test_few_samples_of_many_stages_come_now_and_then(clock: _Clock) -> None:
    taps = Taps()
    taps.open("p", ["act", "decode", "filter"], 1, 300)
    wishes = []
    for _ in range(60):
        clock.now += 1
        wishes.append(taps.wish("p", 2))
    asked = [wish for wish in wishes if wish is not None]
    assert {wish.samples for wish in asked} == {1}
    assert len(asked) == pytest.approx(20, abs=2)


def test_each_looker_gets_its_stages_and_a_slow_one_the_newest() -> None:
    taps = Taps()
    acts, filters, other = (
        taps.open("p", ["act"], 5, 60),
        taps.open("p", ["filter"], 5_000, 60),
        taps.open("q", ["act"], 5, 60),
    )
    assert filters.per_second == 1_000
    taps.give("p", [sample("act", n) for n in range(2_100)] + [sample("filter", 7)])
    assert [each.offset for each in acts.take(2, 0)] == [100, 101]
    assert (acts.dropped, len(acts.take(5_000, 0))) == (100, 1_998)
    assert [(each.stage, each.offset) for each in filters.take(10, 0)] == [("filter", 7)]
    assert filters.take(10, 0.01) == []
    assert other.take(10, 0) == []


def test_a_tap_whose_looker_is_gone_ends_with_its_time(clock: _Clock) -> None:
    taps = Taps()
    taps.open("p", ["act"], 10, 30)
    clock.now += 29
    assert taps.wish("p", 1) is not None
    clock.now += 2
    assert taps.wish("p", 1) is None
    assert taps._open == {}
