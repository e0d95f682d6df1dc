"""What a pipeline loses while somebody watches its events: a drain with a live tap, between two without."""

from __future__ import annotations

import contextlib
import threading
import time
from argparse import Namespace
from typing import Final

import httpx
from tests.support.instance import PenstockProcess
from tests.support.waiting import until

from bench.engine.rig import Rig
from bench.report import Bar, Result

PARTITIONS: Final = 4
_PER_SECOND: Final = 1_000


class _Watcher(threading.Thread):
    """Reads the stream of samples of all stages, as the page does."""

    def __init__(self, process: PenstockProcess, pipeline: str) -> None:
        super().__init__(daemon=True)
        self._url = f"{process.url}/api/v1/pipelines/{pipeline}/tap?per_second={_PER_SECOND}&limit=100000&seconds=300"
        self.samples = 0
        self.over = threading.Event()

    def run(self) -> None:
        # The instance ends while somebody looks.
        with contextlib.suppress(httpx.RemoteProtocolError), httpx.stream("GET", self._url, timeout=30) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                self.samples += line.startswith("data: ") and line != "data: {}"
                if self.over.is_set():
                    return


def tap(rig: Rig, options: Namespace) -> list[Result]:
    """A drain with a live tap of all stages, between drains without one: medians of alternating rounds."""
    (topic,) = rig.topics("tapped", 1, PARTITIONS)
    rig.produce("preload", [topic], partitions=PARTITIONS, count=options.events)
    rates: dict[str, list[float]] = {"A": [], "tapped": [], "A_again": []}
    samples: list[int] = []
    problems: list[str] = []
    for number in range(options.rounds):
        for name, found in rates.items():
            watched = samples if name == "tapped" else None
            found.append(_drained(rig, topic, f"{name}-{number}", options.events, samples=watched, problems=problems))
    best = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    control = abs(best["A"] - best["A_again"]) / max(best["A"], best["A_again"])
    slower = 1 - best["tapped"] / ((best["A"] + best["A_again"]) / 2)
    figures = {f"{name}_events_per_s": round(rate) for name, rate in best.items()} | {
        "samples": min(samples, default=0),
        "control_percent": round(100 * control, 1),
        "slower_percent": round(100 * slower, 1),
        "slower_percent_beyond_control": round(100 * max(0.0, slower - control), 1),
        "rounds": {name: [round(rate) for rate in found] for name, found in rates.items()},
    }
    what = (
        f"{options.events:,} events through a no-op function, with up to {_PER_SECOND:,} samples a second streamed "
        f"to a client, and without; medians of {options.rounds} alternating rounds. A, A again: the control."
    )
    bars = [Bar(figure="slower_percent_beyond_control", at_most=5)]
    return [Result(name="live tap", what=what, figures=figures, bars=bars, problems=problems)]


def _drained(rig: Rig, topic: str, name: str, events: int, *, samples: list[int] | None, problems: list[str]) -> float:
    process, seen = rig.prepared(rig.pipelines(name, [topic], "counted"))
    group = f"{name}-{topic}"
    with process:
        watcher = _Watcher(process, group)
        process.wait_ready(120)
        if samples is not None:
            watcher.start()
        began = time.monotonic()
        until(lambda: rig.broker.lag(group, topic) == 0, 120 + events / 20_000, "all is committed", every_s=0.5)
        taken = time.monotonic() - began
        watcher.over.set()
        process.stop(60)
    count, _ = seen.span()
    if count != events:
        problems.append(f"{name}: the sink saw {count:,} of {events:,} events")
    if samples is not None:
        samples.append(watcher.samples)
        if watcher.samples < taken * _PER_SECOND / 5:
            problems.append(f"{name}: {watcher.samples} samples in {taken:.0f} s")
    warm, seconds = seen.span(before=events // 20)
    return warm / seconds
