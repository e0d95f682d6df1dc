"""Notices that the process stood still: frozen, swapped out, or held up for longer than its group may have waited."""

from __future__ import annotations

import time


class PauseDetector:
    """Beaten by a flow's thread, looked at by lanes before they plan."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._at = time.monotonic()
        self.unsure = False
        """True: there was a gap between two beats; whether the partitions are still ours has to be asked."""

    def beat(self) -> None:
        now = time.monotonic()
        if now - self._at > self._longest:
            self.unsure = True
        self._at = now

    def begin(self) -> None:
        """Life in the group begins: what was before does not matter."""
        self._at = time.monotonic()
        self.unsure = False

    @property
    def is_steady(self) -> bool:
        """Whether the partitions are ours for all we know; lanes wake up as early as the thread that would notice."""
        return not self.unsure and time.monotonic() - self._at <= self._longest
