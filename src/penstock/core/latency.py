"""Histograms of times that are cheap to fill, small to send and exact enough to show (buckets grow by a quarter)."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Annotated

import msgspec

_GROWTH = math.log(1.25)
_BUCKETS = 90
"""1 ms · 1.25^89 is about four days: nothing a pipeline measures lies beyond."""


Count = Annotated[int, msgspec.Meta(ge=0)]


class Latencies(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Counts of milliseconds by bucket; or of whatever unit its owner fills in."""

    counts: Annotated[list[Count], msgspec.Meta(min_length=_BUCKETS, max_length=_BUCKETS)] = msgspec.field(
        default_factory=lambda: [0] * _BUCKETS
    )

    def add(self, millis: Iterable[float]) -> None:
        counts, log = self.counts, math.log
        for value in millis:
            counts[0 if value <= 1.0 else min(_BUCKETS - 1, int(log(value) / _GROWTH) + 1)] += 1

    def put(self, value: float, count: int) -> None:
        """The same value so many times."""
        self.counts[0 if value <= 1.0 else min(_BUCKETS - 1, int(math.log(value) / _GROWTH) + 1)] += count

    def merge(self, other: Latencies) -> None:
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Milliseconds below which `share` of the observations lie; None without any."""
        total = self.total
        if not total:
            return None
        wanted, seen = share * total, 0
        for index, count in enumerate(self.counts):
            seen += count
            if seen >= wanted:
                return round(upper_bound(index), 1)
        return round(upper_bound(_BUCKETS - 1), 1)


class Times(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """How long something took: seconds in all, and microseconds by bucket (up to seven minutes)."""

    seconds: float = 0.0
    micros: Latencies = msgspec.field(default_factory=Latencies)

    def add(self, seconds: float, count: int = 1) -> None:
        """`count` things took so long together; each is taken to have had an equal share."""
        self.seconds += seconds
        self.micros.put(seconds * 1e6 / count, count)

    def merge(self, other: Times) -> None:
        self.seconds += other.seconds
        self.micros.merge(other.micros)

    @property
    def total(self) -> int:
        return self.micros.total

    def quantile(self, share: float) -> float | None:
        """Milliseconds below which `share` of them lie; None without any."""
        micros = self.micros.quantile(share)
        return None if micros is None else round(micros / 1000, 4)


class TimesByName:
    """Times of several things; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[str, Times] = {}

    def add(self, name: str, seconds: float, count: int = 1) -> None:
        if not count:
            return
        with self._lock:
            times = self._times.get(name)
            if times is None:
                times = self._times[name] = Times()
            times.add(seconds, count)

    def take(self) -> dict[str, Times]:
        """What was added since this was asked last."""
        with self._lock:
            taken, self._times = self._times, {}
        return taken


def upper_bound(index: int) -> float:
    """The largest value in milliseconds that falls into this bucket."""
    return math.exp(index * _GROWTH)
