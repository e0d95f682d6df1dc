"""Spark jobs as they come and go: which lane runs one, how many a second, and how long they take."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.core.clock import SYSTEM, Clock

_RECENT = 10.0
"""Seconds over which rates are taken."""


@dataclass(slots=True, frozen=True, kw_only=True)
class LaneJobs:
    """What one lane does."""

    lane: str
    running_for: float | None
    """Seconds that its job has run; None: none runs."""
    pipelines: tuple[str, ...]
    """Whose units its last job carried."""
    jobs: int
    lost: int
    """Jobs that ended without an outcome: a worker died."""
    per_second: float
    mean_seconds: float | None
    """How long its last jobs took; None: none ended lately."""


@dataclass(slots=True)
class _Lane:
    began: float | None = None
    pipelines: tuple[str, ...] = ()
    jobs: int = 0
    lost: int = 0
    ended: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=1_000))
    """When jobs ended lately, and how long they took."""


class SparkJobStats:
    """Written by the threads of lanes, read by any thread."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}
        self._opened = clock.monotonic()

    @contextmanager
    def job(self, lane: str, pipelines: Sequence[str]) -> Iterator[None]:
        """Around a job; one that raises counts as lost."""
        began = self._clock.monotonic()
        with self._lock:
            page = self._lanes.setdefault(lane, _Lane())
            page.began, page.pipelines = began, tuple(pipelines)
            page.jobs += 1
        lost = 1
        try:
            yield
            lost = 0
        finally:
            now = self._clock.monotonic()
            with self._lock:
                page.began = None
                page.lost += lost
                page.ended.append((now, now - began))

    @property
    def jobs(self) -> int:
        """Of all lanes, since the start."""
        with self._lock:
            return sum(page.jobs for page in self._lanes.values())

    def lanes(self) -> list[LaneJobs]:
        """By name."""
        now = self._clock.monotonic()
        with self._lock:
            return [self._view(name, page, now) for name, page in sorted(self._lanes.items())]

    def _view(self, name: str, page: _Lane, now: float) -> LaneJobs:
        while page.ended and page.ended[0][0] < now - _RECENT:
            page.ended.popleft()
        count = len(page.ended)
        return LaneJobs(
            lane=name,
            running_for=None if page.began is None else now - page.began,
            pipelines=page.pipelines,
            jobs=page.jobs,
            lost=page.lost,
            per_second=count / min(_RECENT, max(1.0, now - self._opened)),
            mean_seconds=sum(seconds for _, seconds in page.ended) / count if count else None,
        )
