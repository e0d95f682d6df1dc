"""Periods of usage limits are calendar periods, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.workflows.limits import Period, period_of


@pytest.mark.parametrize(
    ("per", "said"), [("hour", "2024-02-29T23"), ("day", "2024-02-29"), ("month", "2024-02"), ("total", "total")]
)
def test_a_period_is_named_by_the_calendar(per: Period, said: str) -> None:
    assert period_of(per, datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC).timestamp()) == said
