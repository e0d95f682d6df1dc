"""Rates from totals."""

from __future__ import annotations

import pytest

from penstock.console.rates import KEPT, Rates, Totals


def fed(*looks: tuple[float, int, int]) -> Rates:
    rates = Rates()
    for at, events, failures in looks:
        rates.look([Totals("orders", events, failures)], now=at)
    return rates


def test_nothing_is_known_before_two_looks() -> None:
    pace = fed((0, 100, 0)).of("orders")
    assert (pace.rate, pace.curve, pace.error_share, pace.last_event_at) == (0.0, [], None, None)


def test_the_rate_is_that_of_lately() -> None:
    pace = fed((0, 0, 0), (100, 0, 0), (110, 500, 5), (120, 1000, 10)).of("orders")
    assert pace.rate == 50.0
    assert pace.error_share == pytest.approx(0.01)
    assert pace.last_event_at == 120
    assert pace.curve[0] == 0.0


def test_a_rate_is_taken_over_two_looks_that_are_far_apart() -> None:
    assert fed((0, 0, 0), (100, 1000, 0)).of("orders").rate == 10.0


def test_an_instance_that_went_away_makes_no_negative_rate() -> None:
    rates = fed((0, 1000, 10), (10, 2000, 20), (20, 300, 1), (30, 400, 1))
    pace = rates.of("orders")
    assert (pace.rate, pace.error_share) == (10.0, 0.0)
    assert all(rate >= 0 for rate in pace.curve)


def test_looks_close_to_each_other_are_one() -> None:
    assert fed((0, 0, 0), (0.5, 50, 0)).of("orders").curve == []


def test_only_a_while_is_remembered_and_curves_stay_short() -> None:
    rates = fed(*((2.0 * n, 20 * n, 0) for n in range(1000)))
    pace = rates.of("orders")
    assert len(pace.curve) <= 42
    assert set(pace.curve) == {10.0}
    assert len(rates._looks["orders"]) <= KEPT / 2 + 1


def test_pipelines_that_are_gone_are_forgotten() -> None:
    rates = fed((0, 0, 0), (10, 100, 0))
    rates.look([], now=20)
    assert rates.of("orders").last_event_at is None
