"""How much a pipeline has to do: cold, warm or hot, judged from its units."""

from __future__ import annotations

import threading
import time
from typing import Final, Literal

from penstock.pipeline.messages import UnitOutcome

Temperature = Literal["cold", "warm", "hot"]

_BUSY = 0.6
"""Share of a unit's time spent on events, with more waiting, from which on a pipeline gets lanes of its own."""
_BUSY_UNITS = 3
"""So many busy units in a row before it gets them: a short burst is over before the move would pay."""
_CALM = 0.3
"""Share below which it could do without them."""
_CALM_UNITS = 4
"""So many calm units in a row in each lane, before it comes home: moving costs a new consumer."""


_FEW: Final = 32
_LONGEST: Final = 60.0
_SHORTEST: Final = 5.0
_RESTS: Final = 1.0
_RESTS_LONGEST: Final = 2.0
_PIPELINES: Final = 100
"""As long as there are no more, they rest a second at a time."""


class IdlePolicy:
    """How long the pipelines of an instance stay warm without events: a minute while few are, less the more there are.
    Each costs a look some times a second, and hundreds of them a core."""

    def __init__(self) -> None:
        self._awake: set[Activity] = set()
        self._all: set[Activity] = set()
        self._lock = threading.Lock()

    def enter(self, warmth: Activity) -> None:
        with self._lock:
            self._all.add(warmth)

    def leave(self, warmth: Activity) -> None:
        with self._lock:
            self._all.discard(warmth)
            self._awake.discard(warmth)

    def note(self, warmth: Activity, *, awake: bool) -> None:
        with self._lock:
            (self._awake.add if awake else self._awake.discard)(warmth)

    @property
    def rest(self) -> float:
        """Seconds between looks of a cold pipeline at its group; what is told to it wakes it at once."""
        return min(_RESTS_LONGEST, max(_RESTS, len(self._all) / _PIPELINES))

    @property
    def cold_after(self) -> float:
        return max(_SHORTEST, _LONGEST * min(1.0, _FEW / max(1, len(self._awake))))


class Activity:
    """One pipeline's temperature."""

    def __init__(self, season: IdlePolicy) -> None:
        self.temperature: Temperature = "cold"
        self._season = season
        self._calm = 0
        self._busy = 0
        self._touched_at = time.monotonic()

    @property
    def is_cold(self) -> bool:
        return self.temperature == "cold"

    @property
    def is_idle(self) -> bool:
        """Nothing came for so long that it may sleep."""
        return time.monotonic() - self._touched_at >= self._season.cold_after

    def touch(self) -> None:
        """Something came."""
        self._touched_at = time.monotonic()

    def become(self, temperature: Temperature) -> None:
        self.temperature = temperature
        self._season.note(self, awake=temperature != "cold")
        self._calm = self._busy = 0

    def after(self, outcome: UnitOutcome, seconds: float, *, lanes: int) -> Temperature | None:
        """The temperature to change to after this unit, if any."""
        share = outcome.busy / seconds if seconds else 0.0
        if self.temperature == "warm":
            self._busy = self._busy + 1 if outcome.more and share > _BUSY else 0
            return "hot" if self._busy >= _BUSY_UNITS else None
        if self.temperature == "hot":
            self._calm = self._calm + 1 if share < _CALM else 0
            return "warm" if self._calm >= _CALM_UNITS * lanes else None
        return None
