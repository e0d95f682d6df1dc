"""From produced to acted: idle, cold, and busy at 100 to 10,000 events per second."""

from __future__ import annotations

import random
import time
from argparse import Namespace

from tests.support.instance import PenstockProcess

from bench.engine.rig import Rig, Usage
from bench.engine.seen import Seen
from bench.report import Bar, Result

WARM_UP_S = 5.0
COLD_AFTER_S = 65.0
"""A pipeline is cold when it has seen no event for a minute."""


def busy(rig: Rig, options: Namespace) -> list[Result]:
    """Steady rates into one pipeline of four partitions; 1,000/s is measured twice as the A/A control."""
    results: list[Result] = []
    topic = rig.topics("busy", 1, 4)
    with rig.instance(rig.pipelines("busy", topic, "timed")) as (process, seen):
        produced = rig.primed(topic, seen)
        for name, rate in (("A", 1_000), ("100", 100), ("10,000", 10_000), ("A again", 1_000)):
            result = _at_rate(rig, process, seen, topic, rate=rate, seconds=options.seconds, first=produced)
            produced += int(rate * (options.seconds + WARM_UP_S))
            result.name = f"busy latency, {rate:,} events/s" + (f" ({name})" if name.startswith("A") else "")
            results.append(result)
    first, again = results[0].figures, results[-1].figures
    noise = {key: round(abs(first[key] - again[key]), 2) for key in ("p50_ms", "p99_ms")}
    what = "Difference between two equal runs (1,000 events/s): what is smaller than this means nothing."
    return [*results, Result(name="busy latency, A/A control", what=what, figures=noise)]


def _at_rate(
    rig: Rig, process: PenstockProcess, seen: Seen, topic: list[str], *, rate: int, seconds: float, first: int
) -> Result:
    usage = Usage(process)
    rig.produce("pace", topic, rate=rate, seconds=seconds + WARM_UP_S, first=first)
    used = usage.close()
    total = first + int(rate * (seconds + WARM_UP_S))
    problems = _missing(rig, seen, total)
    figures = seen.latencies(first=first + int(rate * WARM_UP_S)).figures()
    figures |= {"seen_twice": seen.twice(), "cpu_percent_of_a_core": used["cpu_percent_of_a_core"]}
    bars = [Bar(figure="p50_ms", at_most=15), Bar(figure="p99_ms", at_most=120)]
    what = f"One pipeline, four partitions, {rate:,} events/s for {seconds:g} s after {WARM_UP_S:g} s of warm-up."
    return Result(name="", what=what, figures=figures, bars=bars, problems=problems)


def idle(rig: Rig, options: Namespace) -> list[Result]:
    """Single events with pauses, then events after a minute (and, if asked for, five) without any."""
    topic = rig.topics("idle", 1, 4)
    results = []
    with rig.instance(rig.pipelines("idle", topic, "timed")) as (_, seen):
        first = rig.primed(topic, seen)
        rig.produce("pace", topic, rate=20, seconds=WARM_UP_S, first=first)
        first += int(20 * WARM_UP_S)
        rounds = [
            ("idle latency", options.samples, (1.5, 4.0)),
            ("cold latency", options.cold_samples, (COLD_AFTER_S, COLD_AFTER_S + 1)),
        ]
        if options.idle_minutes:
            wait = options.idle_minutes * 60.0
            rounds.append((f"latency after {options.idle_minutes:g} idle minutes", 3, (wait, wait)))
        for name, samples, pauses in rounds:
            results.append(_singles(rig, seen, topic, name=name, samples=samples, pauses=pauses, first=first))
            first += samples
    return results


def _singles(
    rig: Rig, seen: Seen, topic: list[str], *, name: str, samples: int, pauses: tuple[float, float], first: int
) -> Result:
    for number in range(samples):
        # The pause is what is measured here: nothing may happen in it.
        time.sleep(random.uniform(*pauses))
        rig.produce("pace", topic, rate=1, seconds=1, first=first + number)
    problems = _missing(rig, seen, first + samples)
    figures = seen.latencies(first=first).figures()
    what = f"{samples} single events, each {pauses[0]:g} to {pauses[1]:g} s after the one before."
    bars = [Bar(figure="p50_ms", at_most=60), Bar(figure="p99_ms", at_most=200)]
    return Result(name=name, what=what, figures=figures, bars=bars, problems=problems)


def _missing(rig: Rig, seen: Seen, count: int) -> list[str]:
    try:
        rig.wait_seen(seen, count, 60)
    except AssertionError as error:
        return [str(error)]
    return []
