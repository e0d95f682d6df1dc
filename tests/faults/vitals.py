"""Memory, threads and file descriptors of a process over time, and whether they stay flat."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field

import psutil

MEASURES = ("memory_mb", "threads", "files")
GROWTH = {"memory_mb": (1.15, 30.0), "threads": (1.0, 8.0), "files": (1.0, 16.0)}
"""A factor and a rest that the last third may lie above the second: heaps breathe, leaks do not stop."""


@dataclass(frozen=True)
class Sample:
    """One look."""

    time: float
    memory_mb: float
    threads: int
    files: int


@dataclass
class Vitals:
    """Looks at one process every few seconds, in a thread of its own."""

    pid: int
    every_s: float = 2.0
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"vitals-{self.pid}", daemon=True)

    def start(self) -> Vitals:
        self._thread.start()
        return self

    def _run(self) -> None:
        process = psutil.Process(self.pid)
        began = time.monotonic()
        while not self._stop.wait(self.every_s):
            try:
                memory = process.memory_info().rss / 2**20
                self.samples.append(
                    Sample(time.monotonic() - began, round(memory, 1), process.num_threads(), process.num_fds())
                )
            except psutil.NoSuchProcess:
                return

    def end(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def thirds(self, measure: str) -> tuple[float, float]:
        """Medians of the second and of the last third; the first is warm-up."""
        values = [float(getattr(sample, measure)) for sample in self.samples]
        third = max(1, len(values) // 3)
        return statistics.median(values[third : 2 * third] or values), statistics.median(values[-third:])

    def growing(self) -> list[str]:
        """What does not stay flat."""
        found = []
        for measure in MEASURES:
            before, after = self.thirds(measure)
            factor, rest = GROWTH[measure]
            if after > before * factor + rest:
                found.append(f"{measure} grew from {before:g} to {after:g}")
        return found
