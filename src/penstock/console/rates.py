"""How fast pipelines are: the totals that instances publish, looked at now and then and remembered for a while."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.core.clock import SYSTEM

KEPT: Final = 300.0
"""Seconds that are remembered."""
_APART: Final = 1.5
"""Looks closer to each other than this are one."""
_LATELY: Final = 20.0
"""Seconds over which the rate of now is taken."""
POINTS: Final = 40


class Totals(NamedTuple):
    """What a pipeline has done so far, over all instances."""

    pipeline: str
    events: int
    failures: int


class _Look(NamedTuple):
    at: float
    events: int
    failures: int


@dataclass(slots=True)
class Pace:
    """How a pipeline does."""

    rate: float = 0.0
    """Events per second, lately."""
    curve: list[float] = field(default_factory=list)
    """Events per second, over the time that is remembered, oldest first."""
    error_share: float | None = None
    """Of the events of that time; None: there were none."""
    last_event_at: float | None = None
    """Epoch seconds, when the total was last seen to grow; None: not since this console began."""


class Rates:
    """Fed by one thread, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[str, deque[_Look]] = {}
        self._grew: dict[str, float] = {}

    def look(self, totals: Iterable[Totals], now: float | None = None) -> None:
        """Remember the totals of all pipelines; those not named are forgotten."""
        at = SYSTEM.time() if now is None else now
        with self._lock:
            known = {each.pipeline for each in totals if self._take(each, at)}
            for gone in self._looks.keys() - known:
                del self._looks[gone]
                self._grew.pop(gone, None)

    def _take(self, each: Totals, at: float) -> bool:
        looks = self._looks.setdefault(each.pipeline, deque())
        if looks and at - looks[-1].at < _APART:
            return True
        if looks and each.events > looks[-1].events:
            self._grew[each.pipeline] = at
        if looks and each.events < looks[-1].events:
            # An instance has gone, and its part of the total with it: what was before cannot be compared any more.
            looks.clear()
        looks.append(_Look(at, each.events, each.failures))
        while looks[0].at < at - KEPT:
            looks.popleft()
        return True

    def of(self, pipeline: str) -> Pace:
        with self._lock:
            looks = list(self._looks.get(pipeline, ()))
            grew = self._grew.get(pipeline)
        if len(looks) < 2:
            return Pace(last_event_at=grew)
        first, last = looks[0], looks[-1]
        events = last.events - first.events
        # A replay's failures may grow without events.
        share = min(1.0, max(0, last.failures - first.failures) / events) if events else None
        since = next((look for look in looks if look.at >= last.at - _LATELY), first)
        since = looks[-2] if since is last else since
        return Pace(_per_second(since, last), _curve(looks), share, grew)


def _per_second(a: _Look, b: _Look) -> float:
    return max(0.0, (b.events - a.events) / (b.at - a.at)) if b.at > a.at else 0.0


def _curve(looks: list[_Look]) -> list[float]:
    """Rates at even distances, each the mean of its stretch of time."""
    first, last = looks[0].at, looks[-1].at
    step = (last - first) / min(POINTS, len(looks) - 1)
    rates, at, before = [], first + step, looks[0]
    for look in looks[1:]:
        if look.at >= at - 1e-6:
            rates.append(_per_second(before, look))
            before = look
            at += step * max(1, round((look.at - at) / step))
    return rates
