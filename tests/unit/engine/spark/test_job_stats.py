"""Spark jobs are counted per lane, and the rate is that of the last seconds."""

from __future__ import annotations

import pytest

from penstock.engine.spark import job_stats as job_book
from penstock.engine.spark.job_stats import SparkJobStats


class _Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(job_book, "time", made)
    return made


def test_jobs_of_each_lane(clock: _Clock) -> None:
    book = SparkJobStats()
    assert book.lanes() == []
    for _ in range(20):
        with book.job("hot-0", ["orders"]):
            clock.now += 1.0
    with book.job("carpool-0", ["a", "b"]):
        clock.now += 0.5
        carpool, hot = book.lanes()
        assert (carpool.lane, carpool.running_for, carpool.pipelines) == ("carpool-0", 0.5, ("a", "b"))
        assert (carpool.jobs, carpool.per_second, carpool.mean_seconds) == (1, 0.0, None)
        assert (hot.running_for, hot.jobs, hot.lost, hot.mean_seconds) == (None, 20, 0, 1.0)
        assert hot.per_second == pytest.approx(1.0)
    clock.now += 60
    assert [lane.per_second for lane in book.lanes()] == [0.0, 0.0]


def test_a_job_that_ends_without_an_outcome_is_lost(clock: _Clock) -> None:
    book = SparkJobStats()

    def dies() -> None:
        with book.job("hot-0", []):
            raise RuntimeError("worker exited")

    with pytest.raises(RuntimeError):
        dies()
    (lane,) = book.lanes()
    assert (lane.jobs, lane.lost, lane.running_for) == (1, 1, None)
