"""`python -m bench datahub`: Penstock and DataHub Actions on the same topics, in one run."""

from __future__ import annotations

import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

from bench.datahub.cases import CASES, WAITING, Case
from bench.datahub.environment import datahub_penstock, peer_environment
from bench.datahub.figures import Figures
from bench.datahub.records import MARK_EVERY
from bench.datahub.sides import SETTLED_S, Ground
from bench.engine.rig import Rig, Usage
from bench.engine.seen import Seen
from bench.report import Result

WARM_UP_S = 3.0
SHORTEST_S = 2.0
"""What was measured for less time than this says little."""
RATE = 100
"""Events per second of the latency runs."""


def datahub(rig: Rig, options: Namespace) -> list[Result]:
    """DataHub Actions beside Penstock: entity changes, metadata change logs, rejected ones, latency, start, memory."""
    seconds = options.seconds
    found = Figures()
    drains, waits = _chosen(CASES, options.cases), _chosen(WAITING, options.cases)
    peer_environment()
    if any(case.side == "penstock[datahub]" for case in drains):
        datahub_penstock()
    # Enough for the fastest case to be at it for most of the time.
    with Ground(rig, logs=int(200_000 * seconds), changes=int(200_000 * seconds)) as ground:
        for number in range(options.rounds):
            for case in drains:
                with _noted(case, found):
                    _drain(ground, case, seconds, found)
            for case in waits:
                with _noted(case, found):
                    found.waits[case.side].append(_latency(ground, case, seconds, number, found))
    return found.results()


def _chosen(cases: list[Case], parts: list[str] | None) -> list[Case]:
    return [case for case in cases if not parts or any(part in case.name for part in parts)]


@contextmanager
def _noted(case: Case, found: Figures) -> Iterator[None]:
    """A run that does not come about leaves no figure, and the others their own."""
    try:
        yield
    except (AssertionError, subprocess.SubprocessError) as error:
        found.problems[case.name].append(f"{case.name}: {str(error)[:500]}")
        print(f"  {case.name}: {error}", flush=True)


def _drain(ground: Ground, case: Case, seconds: float, found: Figures) -> None:
    with ground.steady(case) as (process, seen, group):
        time.sleep(WARM_UP_S)
        total = ground.totals[case.topic] // (MARK_EVERY if case.rejecting else 1)
        usage, began = Usage(process), time.time_ns()
        while time.time_ns() < began + seconds * 1e9 and seen.count() < total:
            time.sleep(0.1)
        ended, used = time.time_ns(), usage.close()
        code = process.stop(60)
    if case.rejecting:
        rate = _marked_rate(seen, began, ended)
    else:
        events, took = seen.between(began, ended)
        rate = events / took if took else 0.0
    elapsed = (ended - began) / 1e9
    cpu_us = used["cpu_percent_of_a_core"] / 100 * elapsed / max(1.0, rate * elapsed) * 1e6
    found.rates[case.name].append(round(rate))
    found.cpu_us[case.name].append(round(cpu_us, 1))
    found.problems[case.name] += _unproven(ground, case, seen, group)
    if elapsed < SHORTEST_S:
        found.problems[case.name].append(f"{case.name}: the topic was drained after {elapsed:.1f} s")
    if code != 0:
        found.problems[case.name].append(f"{case.name}: ended with {code}")
    print(f"  {case.name:<32}{rate:>12,.0f} events/s {cpu_us:>9.1f} µs of CPU each", flush=True)


def _marked_rate(seen: Seen, began: int, ended: int) -> float:
    """Events per second where only marks are seen: the offsets between a partition's first and last mark."""
    rate = 0.0
    marks = sorted((partition, at, offset) for partition, offset, at, _ in seen.pairs() if began <= at <= ended)
    for _, of_partition in groupby(marks, key=lambda mark: mark[0]):
        inside = list(of_partition)
        (_, first_at, first), (_, last_at, last) = inside[0], inside[-1]
        if last_at > first_at:
            rate += (last - first) / ((last_at - first_at) / 1e9)
    return rate


def _unproven(ground: Ground, case: Case, seen: Seen, group: str) -> list[str]:
    """The committed offsets must say what the sink says."""
    committed = ground.rig.broker.offsets(group).values()
    # In every partition the marks are at the offsets that the step divides.
    wanted = sum(-(-offset // MARK_EVERY) if case.rejecting else offset for offset in committed)
    acted = seen.count()
    return [] if acted == wanted else [f"{case.name}: the sink saw {acted:,}, the group committed {wanted:,}"]


def _latency(ground: Ground, case: Case, seconds: float, number: int, found: Figures) -> dict[str, float]:
    topic = f"{case.topic}_{number}"
    ground.rig.broker.create_topic(topic, 4)
    ground.produce("pace", topic, rate=1, seconds=1)
    process, seen, _ = ground.prepared(Case(name=case.name, side=case.side, topic=topic, action=case.action))
    began = time.time_ns()
    with process:
        ground.rig.wait_seen(seen, 1, 120)
        started = (seen.pairs()[0][2] - began) / 1e9
        time.sleep(SETTLED_S)
        warm = int(RATE * WARM_UP_S)
        ground.produce("pace", topic, rate=RATE, seconds=WARM_UP_S, first=1)
        usage = Usage(process)
        ground.produce("pace", topic, rate=RATE, seconds=seconds, first=1 + warm)
        ground.rig.wait_seen(seen, 1 + warm + int(RATE * seconds), 60)
        used = usage.close()
        process.stop(60)
    if seen.twice():
        found.problems[case.name].append(f"{case.name}: {seen.twice()} events were seen twice")
    latencies = seen.latencies(first=1 + warm)
    made = {
        "p50_ms": round(latencies.at(0.5), 2),
        "p99_ms": round(latencies.at(0.99), 2),
        "start_s": round(started, 2),
        "rss_mb": used["rss_mb_last"],
        "cpu_percent_of_a_core": used["cpu_percent_of_a_core"],
    }
    print(f"  {case.name:<32}{made}", flush=True)
    return made
