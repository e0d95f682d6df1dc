"""The breaker: counts failures over the latest events, where they happen."""

from __future__ import annotations

from collections import deque

from penstock.config.spec import BreakerSpec


class Breaker:
    """Lives as long as the worker holds the pipeline. Every failure is reported to it, with the number of its event."""

    def __init__(self, spec: BreakerSpec) -> None:
        self._spec = spec
        self._failures: deque[int] = deque()
        self._seen = 0
        self._before = 0
        self._tripped = False

    def begin(self) -> None:
        """A new unit counts its events from zero; after a pause the past counts for nothing."""
        if self._tripped:
            self._failures.clear()
            self._seen, self._tripped = 0, False
        self._before = self._seen

    def failed(self, nth: int) -> str | None:
        """The unit's `nth` event failed; the reason to pause, if that is too much."""
        if not self._spec.enabled:
            return None
        self._seen = max(self._seen, self._before + nth)
        self._failures.append(self._seen)
        floor = self._seen - self._spec.window
        while self._failures[0] <= floor:
            self._failures.popleft()
        if self._seen < self._spec.window or len(self._failures) < self._spec.ratio * self._spec.window:
            return None
        self._tripped = True
        return f"{len(self._failures)} of the last {self._spec.window} events failed"

    def end(self, events: int) -> None:
        """The unit has finished this number of events."""
        self._seen = max(self._seen, self._before + events)
