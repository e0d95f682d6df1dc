"""How long pipelines without events stay warm, and how deeply they rest, by how many there are."""

from __future__ import annotations

from penstock.engine.pipelines.activity import Activity, IdlePolicy


def crowd(season: IdlePolicy, count: int) -> list[Activity]:
    made = [Activity(season) for _ in range(count)]
    for warmth in made:
        season.enter(warmth)
        warmth.become("warm")
    return made


def test_few_stay_warm_for_a_minute_and_hundreds_for_seconds() -> None:
    season = IdlePolicy()
    few = crowd(season, 20)
    assert (season.cold_after, season.rest) == (60.0, 1.0)
    many = crowd(season, 300)
    assert season.cold_after == 6.0
    assert season.rest == 2.0
    for warmth in many:
        warmth.become("cold")
    assert (season.cold_after, season.rest) == (60.0, 2.0), "they still rest, in a crowd"
    for warmth in [*few, *many]:
        season.leave(warmth)
    assert (season.cold_after, season.rest) == (60.0, 1.0)


def test_no_crowd_is_too_large() -> None:
    season = IdlePolicy()
    crowd(season, 5_000)
    assert (season.cold_after, season.rest) == (5.0, 2.0)
