"""The sentence on all pipelines, and their order."""

from __future__ import annotations

from penstock.console.overview import Line, line_of, most_urgent_first, verdict
from penstock.console.rates import Pace
from penstock.core.status import PartitionStatus, PipelineStatus, State


def line(
    name: str,
    state: State = "running",
    *,
    lag: int | None = 0,
    rate: float = 0.0,
    letters: int = 0,
    share: float | None = None,
) -> Line:
    places = [PartitionStatus(topic="t", partition=0, lag=lag)]
    status = PipelineStatus(pipeline=name, state=state, partitions=places, dead_letters=letters)
    return line_of(status, Pace(rate=rate, error_share=share))


def test_all_well() -> None:
    said = verdict([line("a"), line("b", "idle"), line("c", "paused")])
    assert (said.level, said.sentence) == ("ok", "2 pipelines healthy, 1 at rest.")


def test_one_failed_and_one_waiting() -> None:
    said = verdict([line("a"), line("b", "failed"), line("c", "waiting")])
    assert (said.level, said.sentence) == ("bad", "1 failed, 1 waiting of 3 pipelines, 1 healthy.")
    assert said.pipelines == (("b", "b", "failed"), ("c", "c", "waiting"))


def test_events_that_fail_are_told_though_their_pipeline_goes_on() -> None:
    said = verdict([line("a"), line("b", share=0.027, letters=159), line("c", "paused", share=0.5)])
    assert (said.level, said.sentence) == ("warn", "1 with failing events of 3 pipelines, 1 healthy, 1 at rest.")
    assert said.pipelines == (("b", "b", "2.7 % of recent events failed"),)
    assert said.letters == 159


def test_a_pipeline_is_counted_once_whatever_is_wrong_with_it() -> None:
    said = verdict([line("a", lag=50_000, share=0.5), line("b", "waiting", lag=50_000, share=0.5)])
    assert said.sentence == "1 waiting, 1 behind of 2 pipelines."


def test_work_orders_that_failed_are_told_though_all_pipelines_are_well() -> None:
    said = verdict([line("a")], orders="12")
    assert (said.level, said.sentence, said.orders) == ("warn", "1 pipeline healthy.", "12")


def test_dead_letters_of_long_ago_leave_a_pipeline_healthy() -> None:
    said = verdict([line("a", letters=7)])
    assert (said.level, said.letters) == ("ok", 7)


def test_behind_is_what_cannot_be_done_within_a_minute() -> None:
    assert verdict([line("a", lag=50_000, rate=100)]).pipelines == (("a", "a", "50,000 events behind"),)
    assert verdict([line("a", lag=50_000, rate=2000)]).level == "ok"
    assert verdict([line("a", lag=999)]).level == "ok"


def test_a_paused_pipeline_is_not_behind() -> None:
    assert verdict([line("a", "paused", lag=50_000), line("b")]).level == "ok"


def test_nothing_has_run() -> None:
    assert verdict([]).level == "warn"


def test_lag_is_unknown_where_no_partition_tells_it() -> None:
    assert line("a", lag=None).lag is None


def test_the_most_urgent_come_first() -> None:
    lines = [
        line("idle", "idle"),
        line("z"),
        line("a"),
        line("broken", "failed"),
        line("late", lag=5000),
        line("l", letters=3),
        line("fails", share=0.1),
        line("rests", "paused"),
    ]
    order = ["broken", "late", "fails", "rests", "l", "a", "z", "idle"]
    assert [each.pipeline for each in most_urgent_first(lines)] == order
