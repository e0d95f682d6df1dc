"""Time, randomness and environment are handed in."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.clock import SYSTEM, Clock, format_time, parse_time


def test_surroundings_are_what_a_test_says() -> None:
    world = Clock(time=lambda: 1.5, monotonic=lambda: 7.0, random=lambda: 1.0, environ={"A": "b"})
    assert (world.now_ms(), world.monotonic(), world.environ["A"]) == (1500, 7.0, "b")
    assert world.jittered(10.0, 0.2) == pytest.approx(12.0)
    assert Clock(random=lambda: 0.0).jittered(10.0, 0.2) == pytest.approx(8.0)


def test_the_system_is_the_real_thing() -> None:
    assert SYSTEM.environ is os.environ
    assert abs(SYSTEM.now_ms() - datetime.now(UTC).timestamp() * 1000) < 5000


@pytest.mark.parametrize(
    ("written", "millis"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:00.250", 250),
        ("1970-01-02", 86_400_000),
        (date(1970, 1, 2), 86_400_000),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 2000),
    ],
)
def test_parse_time(written: str | date, millis: int) -> None:
    assert parse_time(written) == millis


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a time like .* is wanted, not 'soon'"):
        parse_time("soon")


@given(st.integers(min_value=0, max_value=4_102_444_800_000))
def test_times_go_there_and_back(millis: int) -> None:
    assert parse_time(format_time(millis)) == millis
