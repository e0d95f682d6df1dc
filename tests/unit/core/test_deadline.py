"""Deadlines end when they say."""

from __future__ import annotations

from penstock.core.clock import Clock
from penstock.core.deadline import Deadline


class Monotonic:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_remaining_falls_to_zero_and_stays_there() -> None:
    clock = Monotonic()
    deadline = Deadline.after(5, Clock(monotonic=clock))
    assert (deadline.remaining, deadline.expired) == (5, False)
    clock.now += 4
    assert (deadline.remaining, deadline.expired) == (1, False)
    clock.now += 1
    assert (deadline.remaining, deadline.expired) == (0, True)
    clock.now += 100
    assert (deadline.remaining, deadline.expired) == (0, True)


def test_sooner_never_moves_the_end_back() -> None:
    deadline = Deadline.after(5, Clock(monotonic=Monotonic()))
    assert deadline.sooner(2).remaining == 2
    assert deadline.sooner(60).remaining == 5
    assert deadline.remaining == 5
