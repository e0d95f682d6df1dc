"""How much a pipeline has to do: idle, shared or dedicated, judged from its units."""

from __future__ import annotations

from typing import Final, Literal

from penstock.core.clock import SYSTEM, Clock
from penstock.core.threads import THREADS, Threads
from penstock.pipeline.messages import UnitOutcome

ActivityState = Literal["idle", "shared", "dedicated"]
"""Idle: holds nothing, the idle watcher wakes it. Shared: rides in a shared lane. Dedicated: has lanes of its own."""

_BUSY: Final = 0.6
"""Share of a unit's time spent on events, with more waiting, above which a pipeline gets dedicated lanes."""
_BUSY_UNITS: Final = 3
"""Busy units in a row before it gets them: a short burst is over before the move would pay."""
_CALM: Final = 0.3
"""Share below which it could do without them."""
_CALM_UNITS: Final = 4
"""Calm units in a row, per lane, before it returns to a shared lane: each move costs a new consumer."""
_FEW: Final = 32
"""Up to this many active pipelines the idle timeout has its full length."""
_LONGEST: Final = 60.0
_SHORTEST: Final = 5.0
_POLL_EVERY: Final = 1.0
_POLL_EVERY_AT_MOST: Final = 2.0
_PIPELINES: Final = 100
"""Up to this many pipelines an idle one polls its group every second."""


class IdlePolicy:
    """Idle timeout shared by all pipelines of an instance: 60 s for up to 32 active ones, shrinking to 5 s as there are
    more, because every active pipeline polls several times a second."""

    def __init__(self, *, threads: Threads = THREADS) -> None:
        self._active: set[Activity] = set()
        self._all: set[Activity] = set()
        self._lock = threads.lock()

    def enter(self, activity: Activity) -> None:
        with self._lock:
            self._all.add(activity)

    def leave(self, activity: Activity) -> None:
        with self._lock:
            self._all.discard(activity)
            self._active.discard(activity)

    def note(self, activity: Activity, *, active: bool) -> None:
        with self._lock:
            (self._active.add if active else self._active.discard)(activity)

    @property
    def poll_every(self) -> float:
        """Seconds between two polls of the group by an idle pipeline; its mailbox wakes it at once."""
        return min(_POLL_EVERY_AT_MOST, max(_POLL_EVERY, len(self._all) / _PIPELINES))

    @property
    def idle_after(self) -> float:
        return max(_SHORTEST, _LONGEST * min(1.0, _FEW / max(1, len(self._active))))


class Activity:
    """One pipeline's activity."""

    def __init__(self, policy: IdlePolicy, clock: Clock = SYSTEM) -> None:
        self.state: ActivityState = "idle"
        self._policy = policy
        self._clock = clock
        self._calm = 0
        self._busy = 0
        self._seen_at = clock.monotonic()

    @property
    def is_idle(self) -> bool:
        return self.state == "idle"

    @property
    def is_quiet(self) -> bool:
        """Nothing arrived for longer than the idle timeout."""
        return self._clock.monotonic() - self._seen_at >= self._policy.idle_after

    def touch(self) -> None:
        """Something arrived."""
        self._seen_at = self._clock.monotonic()

    def become(self, state: ActivityState) -> None:
        self.state = state
        self._policy.note(self, active=state != "idle")
        self._calm = self._busy = 0

    def after(self, outcome: UnitOutcome, seconds: float, *, lanes: int) -> ActivityState | None:
        """The state to change to after this unit, if any."""
        share = outcome.busy / seconds if seconds else 0.0
        if self.state == "shared":
            self._busy = self._busy + 1 if outcome.more and share > _BUSY else 0
            return "dedicated" if self._busy >= _BUSY_UNITS else None
        if self.state == "dedicated":
            self._calm = self._calm + 1 if share < _CALM else 0
            return "shared" if self._calm >= _CALM_UNITS * lanes else None
        return None
