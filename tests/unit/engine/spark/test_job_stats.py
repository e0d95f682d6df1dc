"""Spark jobs are counted per lane, and the rate is that of the last seconds."""

from __future__ import annotations

import pytest

from penstock.core.clock import Clock
from penstock.engine.spark.job_stats import SparkJobStats


class _Time:
    def __init__(self) -> None:
        self.now = 50.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now)


def test_jobs_of_each_lane() -> None:
    clock = _Time()
    book = SparkJobStats(clock.clock())
    assert book.lanes() == []
    for _ in range(20):
        with book.job("dedicated-0", ["orders"]):
            clock.now += 1.0
    with book.job("shared-0", ["a", "b"]):
        clock.now += 0.5
        dedicated, shared = book.lanes()
        assert (shared.lane, shared.running_for, shared.pipelines) == ("shared-0", 0.5, ("a", "b"))
        assert (shared.jobs, shared.per_second, shared.mean_seconds) == (1, 0.0, None)
        assert (dedicated.running_for, dedicated.jobs, dedicated.lost, dedicated.mean_seconds) == (None, 20, 0, 1.0)
        assert dedicated.per_second == pytest.approx(1.0)
    clock.now += 60
    assert [lane.per_second for lane in book.lanes()] == [0.0, 0.0]


def test_a_job_that_ends_without_an_outcome_is_lost() -> None:
    book = SparkJobStats()

    def dies() -> None:
        with book.job("dedicated-0", []):
            raise RuntimeError("worker exited")

    with pytest.raises(RuntimeError):
        dies()
    (lane,) = book.lanes()
    assert (lane.jobs, lane.lost, lane.running_for) == (1, 1, None)
