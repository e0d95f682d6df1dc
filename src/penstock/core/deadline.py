"""A point in time that is handed down, so that every wait inside a window, retry or stop ends with it."""

from __future__ import annotations

import time


class Deadline:
    """Ends at a moment of the monotonic clock, which all processes of one machine share."""

    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        self.at = at

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - time.monotonic())

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self.at

    def sooner(self, seconds: float) -> Deadline:
        """This deadline, or one `seconds` from now where that comes first."""
        return Deadline(min(self.at, time.monotonic() + seconds))
