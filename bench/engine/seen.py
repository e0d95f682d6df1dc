"""Reads what the sinks wrote: latencies, counts over time, and whether every event was seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.engine.sink import PAIR, SAMPLE


@dataclass(frozen=True)
class Latencies:
    """Latencies in milliseconds, sorted."""

    values: list[float]

    def at(self, share: float) -> float:
        if not self.values:
            return float("nan")
        return self.values[min(len(self.values) - 1, int(share * len(self.values)))]

    def figures(self) -> dict[str, float]:
        return {"events": len(self.values)} | {
            name: round(self.at(share), 2)
            for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0))
        }


class Seen:
    """Everything in one sink folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pairs(self) -> list[tuple[int, int, int, int]]:
        found: list[tuple[int, int, int, int]] = []
        for file in sorted(self.folder.glob("*.pairs")):
            raw = file.read_bytes()
            # The writer may be in the middle of one.
            found += PAIR.iter_unpack(raw[: len(raw) // PAIR.size * PAIR.size])
        return found

    def count(self) -> int:
        """Events noted so far, by either sink."""
        pairs = sum(file.stat().st_size // PAIR.size for file in self.folder.glob("*.pairs"))
        return pairs + sum(samples[-1][1] for samples in self._samples())

    def latencies(self, *, first: int = 0) -> Latencies:
        """Of the events from this number on; the numbers before it were the warm-up."""
        return Latencies(sorted((acted - made) / 1e6 for made, _, acted, number in self.pairs() if number >= first))

    def latencies_in_broker(self, *, first: int = 0) -> Latencies:
        """The same from the moment the broker appended the event: without the producer's own queue."""
        return Latencies(sorted((acted - at) / 1e6 for _, at, acted, number in self.pairs() if number >= first))

    def twice(self) -> int:
        """Events that were acted on more than once, by their number."""
        return sum(1 for times in Counter(number for *_, number in self.pairs()).values() if times > 1)

    def _samples(self) -> list[list[tuple[int, int]]]:
        found = []
        for file in sorted(self.folder.glob("*.samples")):
            raw = file.read_bytes()
            if len(raw) >= SAMPLE.size:
                found.append(list(SAMPLE.iter_unpack(raw[: len(raw) // SAMPLE.size * SAMPLE.size])))
        return found

    def between(self, begin_ns: int, end_ns: int) -> tuple[int, float]:
        """Events counted between two moments, over all processes, and the seconds between the samples that say so."""
        events, first, last = 0, end_ns, begin_ns
        for samples in self._samples():
            inside = [(at, count) for at, count in samples if begin_ns <= at <= end_ns]
            if inside:
                events += inside[-1][1] - inside[0][1]
                first, last = min(first, inside[0][0]), max(last, inside[-1][0])
        return events, max(0, last - first) / 1e9

    def span(self, before: int = 0) -> tuple[int, float]:
        """Events and the seconds they took, from the sample at which `before` events were seen, over all processes."""
        steps: list[tuple[int, int]] = []
        for samples in self._samples():
            last = 0
            for at, count in samples:
                steps.append((at, count - last))
                last = count
        if not steps:
            return 0, 0.0
        steps.sort()
        # The first sample covers the 25 ms before it.
        total, began, base = 0, steps[0][0] - 25_000_000, 0
        for at, more in steps:
            if total < before <= total + more:
                began, base = at, total + more
            total += more
        return total - base, (steps[-1][0] - began) / 1e9
