"""What a pipeline loses while somebody watches: drains in which a looker comes and goes every few seconds."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

import httpx
from tests.support.instance import PenstockProcess
from tests.support.waiting import until

from bench.engine.rig import Rig
from bench.engine.seen import Seen
from bench.report import Bar, Result

PARTITIONS: Final = 4
_PER_SECOND: Final = 1_000
_TIMES: Final = 4
"""The other drains' events so often: one drain has to hold several phases."""
_WARM_UP: Final = 3.0
"""Seconds of a drain before its first phase."""
_PHASE: Final = 4.0
_TURN: Final = 1.5
"""Seconds at the beginning of a phase that are dropped: windows that run already do not know of a looker yet."""
_PHASES: Final = ("A", "tap", "A_again", "tail")
_STREAMS: Final = {
    "tap": f"tap?per_second={_PER_SECOND}&limit=100000&seconds=300",
    "tail": "topics/{topic}/tail?last=0&limit=100000&seconds=300",
}


@dataclass(frozen=True)
class _Phase:
    name: str
    rate: float
    """Events a second."""
    streamed: float
    """Samples or records a second that reached the looker."""


class _Watcher(threading.Thread):
    """Reads a stream of server-sent events to its end, or until told to go."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.count = 0
        self._over = threading.Event()

    def run(self) -> None:
        # The instance may end while somebody looks.
        with contextlib.suppress(httpx.RemoteProtocolError), httpx.stream("GET", self._url, timeout=30) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                self.count += line.startswith("data: ") and line != "data: {}"
                if self._over.is_set():
                    return

    def leave(self) -> None:
        self._over.set()
        self.join(10)


def tap(rig: Rig, options: Namespace) -> list[Result]:
    """Drains with a live tap, with a live tail of the topic, and with nobody who looks, in turns."""
    (topic,) = rig.topics("tapped", 1, PARTITIONS)
    events = options.events * _TIMES
    rig.produce("preload", [topic], partitions=PARTITIONS, count=events)
    drains: list[list[_Phase]] = []
    problems: list[str] = []
    for number in range(options.rounds):
        names = islice(cycle(_PHASES), number, None)
        drains.append(_drained(rig, topic, f"round-{number}", names, problems))
    phases = [phase for drain in drains for phase in drain]
    rates = {name: [phase.rate for phase in phases if phase.name == name] for name in _PHASES}
    figures = {f"{name}_events_per_s": round(statistics.median(found)) for name, found in rates.items()}
    control = abs(_slower(drains, "A_again", apart=2))
    figures["control_percent"] = round(100 * control, 1)
    bars = []
    for name in _STREAMS:
        slower = _slower(drains, name, apart=1)
        came = statistics.median(phase.streamed for phase in phases if phase.name == name)
        figures |= {
            f"{name}_streamed_per_s": round(came),
            f"{name}_slower_percent": round(100 * slower, 1),
            f"{name}_slower_percent_beyond_control": round(100 * max(0.0, slower - control), 1),
        }
        bars.append(Bar(figure=f"{name}_slower_percent_beyond_control", at_most=5))
        bars.append(Bar(figure=f"{name}_streamed_per_s", at_least=0.9 * _PER_SECOND))
    figures["rounds"] = {name: [round(rate) for rate in found] for name, found in rates.items()}
    what = (
        f"{events:,} events through a no-op function while {_PER_SECOND:,} more come each second. In turns of"
        f" {_PHASE:g} s: nobody looks (A), a tap of {_PER_SECOND:,} samples a second is streamed to a client, nobody"
        " looks (A again), a tail of the topic is streamed. Each turn is compared with the two around it in which"
        f" nobody looks (the control: A again, with A); medians of the turns of {options.rounds} drains."
    )
    return [Result(name="live tap and tail", what=what, figures=figures, bars=bars, problems=problems)]


def _slower(drains: list[list[_Phase]], name: str, *, apart: int) -> float:
    """By which part such turns are slower than those so many before and after them, in the median: the machine's speed
    drifts by more than what is measured, but not from one turn to the next."""
    shares = []
    for drain in drains:
        for place in range(apart, len(drain) - apart):
            if drain[place].name == name:
                around = (drain[place - apart].rate + drain[place + apart].rate) / 2
                shares.append(1 - drain[place].rate / around)
    return statistics.median(shares) if shares else float("nan")


def _drained(rig: Rig, topic: str, name: str, names: Iterator[str], problems: list[str]) -> list[_Phase]:
    process, seen = rig.prepared(rig.pipelines(name, [topic], "counted"))
    group = f"{name}-{topic}"
    found: list[_Phase] = []
    with process:
        process.wait_ready(120)
        producer = rig.producer("pace", [topic], rate=_PER_SECOND, seconds=600)
        try:
            until(lambda: seen.count() > 0, 60, "the drain begins")
            time.sleep(_WARM_UP)
            # What is left would last for less than the phase at the rate of the one before.
            while rig.broker.lag(group, topic) > _PHASE * (found[-1].rate if found else 100_000):
                found.append(_phase(next(names), process, group, topic, seen))
        finally:
            producer.terminate()
            producer.wait(30)
        until(lambda: rig.broker.lag(group, topic) == 0, 120, "all is committed", every_s=0.5)
        if process.stop(60) != 0:
            problems.append(f"{name}: the instance did not end in good order")
    count, produced = seen.count(), sum(rig.broker.end_offsets(topic).values())
    if count != produced:
        problems.append(f"{name}: the sink saw {count:,} of {produced:,} events")
    if len(found) < len(_PHASES):
        problems.append(f"{name}: only {len(found)} turns; --events makes drains longer")
    return found


def _phase(name: str, process: PenstockProcess, pipeline: str, topic: str, seen: Seen) -> _Phase:
    stream = _STREAMS.get(name)
    watcher = _Watcher(f"{process.url}/api/v1/pipelines/{pipeline}/{stream.format(topic=topic)}") if stream else None
    if watcher:
        watcher.start()
    time.sleep(_TURN)
    began, had = time.time_ns(), watcher.count if watcher else 0
    time.sleep(_PHASE - _TURN)
    ended, has = time.time_ns(), watcher.count if watcher else 0
    if watcher:
        watcher.leave()
    events, seconds = seen.between(began, ended)
    return _Phase(name, events / seconds, (has - had) / (_PHASE - _TURN))
