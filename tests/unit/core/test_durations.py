"""Durations and rates as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from penstock.core.durations import Duration, Rate, parse_duration, parse_rate


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30s", 30), ("250ms", 0.25), ("1h30m", 5400), ("1d", 86400), ("1.5h", 5400), ("2m 5s", 125), (" 3S ", 3),
        ("42", 42), (7, 7), (0.5, 0.5), ("0", 0),
    ],
)  # fmt: skip
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "soon", "5 parsecs", "1h!", "-3s", -1, True, None, [], "s", "1s2"])
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "rate"), [("100/s", 100), ("6000/m", 100), ("3600/h", 1), (5, 5), ("2.5", 2.5), ("1 / d", 1 / 86400)]
)
def test_rates(written: object, rate: float) -> None:
    assert parse_rate(written) == pytest.approx(rate)


@pytest.mark.parametrize("written", ["", "fast", "0/s", 0, -1, True, "1/y", None])
def test_what_is_no_rate(written: object) -> None:
    with pytest.raises(ValueError, match="rate"):
        parse_rate(written)


@given(st.integers(0, 999), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int, millis: int) -> None:
    expected = hours * 3600 + minutes * 60 + seconds + millis / 1000
    assert parse_duration(f"{hours}h{minutes}m{seconds}s{millis}ms") == pytest.approx(expected)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()))
def test_anything_else_is_a_plain_error(written: object) -> None:
    for kind in (Duration, Rate):
        try:
            assert TypeAdapter(kind).validate_python(written) >= 0
        except ValidationError as error:
            assert "is wanted, not" in str(error) or "cannot be negative" in str(error) or "above zero" in str(error)  # noqa: PT017
