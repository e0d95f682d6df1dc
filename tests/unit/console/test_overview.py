"""The sentence on all pipelines, and their order."""

from __future__ import annotations

from penstock.console.overview import Line, line_of, most_urgent_first, verdict
from penstock.console.rates import Pace
from penstock.core.status import PartitionStatus, PipelineStatus, State


def line(name: str, state: State = "running", *, lag: int | None = 0, rate: float = 0.0, letters: int = 0) -> Line:
    places = [PartitionStatus(topic="t", partition=0, lag=lag)]
    status = PipelineStatus(pipeline=name, state=state, partitions=places, dead_letters=letters)
    return line_of(status, Pace(rate=rate))


def test_all_well() -> None:
    said = verdict([line("a"), line("b", "idle"), line("c", "paused")])
    assert (said.level, said.sentence) == ("ok", "2 pipelines healthy, 1 at rest.")


def test_one_failed_and_one_waiting() -> None:
    said = verdict([line("a"), line("b", "failed"), line("c", "waiting")])
    assert (said.level, said.sentence) == ("bad", "1 failed, 1 waiting of 3 pipelines.")
    assert said.pipelines == (("b", "failed"), ("c", "waiting"))


def test_behind_is_what_cannot_be_done_within_a_minute() -> None:
    assert verdict([line("a", lag=50_000, rate=100)]).pipelines == (("a", "50,000 events behind"),)
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
    ]
    assert [each.pipeline for each in most_urgent_first(lines)] == ["broken", "late", "l", "a", "z", "idle"]
