"""A point in time that is handed down, so that every wait inside a window, retry or stop ends with it."""

from __future__ import annotations

from penstock.core.clock import SYSTEM, Clock


class Deadline:
    """Ends at a moment of the monotonic clock, which all processes of one machine share."""

    __slots__ = ("_clock", "at")

    def __init__(self, at: float, clock: Clock = SYSTEM) -> None:
        self.at = at
        self._clock = clock

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM) -> Deadline:
        return cls(clock.monotonic() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - self._clock.monotonic())

    @property
    def expired(self) -> bool:
        return self._clock.monotonic() >= self.at

    def sooner(self, seconds: float) -> Deadline:
        """This deadline, or one `seconds` from now where that comes first."""
        return Deadline(min(self.at, self._clock.monotonic() + seconds), self._clock)
