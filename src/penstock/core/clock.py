"""Time, randomness and the environment as one object that is handed in, so that tests control them."""

from __future__ import annotations

import os
import random as system_random
import time as system_time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime


@dataclass(frozen=True, kw_only=True)
class Clock:
    """L8: time, randomness and the environment come in as an argument. `SYSTEM` is the real thing; the simulation and
    tests pass their own."""

    time: Callable[[], float] = system_time.time
    """Seconds since the epoch."""
    monotonic: Callable[[], float] = system_time.monotonic
    """Seconds of a clock that never goes back; all processes of one machine share it."""
    sleep: Callable[[float], None] = system_time.sleep
    """Block the calling thread for some seconds."""
    random: Callable[[], float] = system_random.random
    """A number from 0 up to, not including, 1."""
    environ: MutableMapping[str, str] = field(default_factory=lambda: os.environ)
    """Environment variables."""

    def now_ms(self) -> int:
        """Epoch milliseconds, Kafka's and the store's unit."""
        return int(self.time() * 1000)

    def now_us(self) -> int:
        """Epoch microseconds, the unit of work orders and runs in the store."""
        return int(self.time() * 1_000_000)

    def jittered(self, seconds: float, share: float) -> float:
        """`seconds`, moved at random by up to `share` of itself in either direction."""
        return seconds * (1.0 + share * (2.0 * self.random() - 1.0))


SYSTEM = Clock()


def parse_time(text: str | date | datetime) -> int:
    """Epoch milliseconds from an ISO date or time; without an offset it is UTC."""
    if isinstance(text, str):
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(f"a time like 2026-01-01T00:00:00Z is wanted, not {text!r}") from None
    elif isinstance(text, datetime):
        moment = text
    else:
        moment = datetime(text.year, text.month, text.day, tzinfo=UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def format_time(millis: int) -> str:
    """ISO time in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(millis / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
