"""A latency histogram that is cheap to fill, small to send and exact enough to show (buckets grow by a quarter)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_GROWTH = math.log(1.25)
_BUCKETS = 90
"""1 ms · 1.25^89 is about four days: nothing a pipeline measures lies beyond."""


class Latencies:
    """Counts of milliseconds by bucket."""

    __slots__ = ("counts",)

    def __init__(self, counts: Sequence[int] | None = None) -> None:
        self.counts = list(counts) if counts else [0] * _BUCKETS

    def __getstate__(self) -> dict[int, int]:
        """Few buckets of one unit hold anything: they travel alone."""
        return {index: count for index, count in enumerate(self.counts) if count} or {0: 0}

    def __setstate__(self, state: dict[int, int]) -> None:
        self.counts = [state.get(index, 0) for index in range(_BUCKETS)]

    def add(self, millis: Iterable[float]) -> None:
        counts, log = self.counts, math.log
        for value in millis:
            counts[0 if value <= 1.0 else min(_BUCKETS - 1, int(log(value) / _GROWTH) + 1)] += 1

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


def upper_bound(index: int) -> float:
    """The largest value in milliseconds that falls into this bucket."""
    return math.exp(index * _GROWTH)
