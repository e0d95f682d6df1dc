"""Work and failure: events that take their time, a share of poison, and an instance that is killed."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from typing import Any

from tests.support.waiting import until

from bench.engine.rig import Rig
from bench.engine.seen import Seen
from bench.report import Bar, Result

EVENTS = 10_000
POISON_EVENTS = 1_000_000
SESSION_S = 10.0
SETTLED_S = 15.0


def parallel(rig: Rig, options: Namespace) -> list[Result]:  # noqa: ARG001 - of fixed size, as its model is
    """10,000 events of 0 to 5 ms in one partition: with twenty keys at concurrency 100, and with one key."""
    return [_worked(rig, "twenty keys", 20, 100, 2.5), _worked(rig, "one key", 1, 100, 30.0)]


def _worked(rig: Rig, name: str, keys: int, concurrency: int, bar: float) -> Result:
    (topic,) = rig.topics(f"work-{keys}", 1, 1)
    chosen = {"concurrency": concurrency, "ordering": "key"}
    with rig.instance(rig.pipelines(f"work-{keys}", [topic], "worked", options=chosen)) as (_, seen):
        first = rig.primed([topic], seen)
        # Lanes start one after the other behind the first ones; what follows is not about starting.
        time.sleep(SETTLED_S)
        rig.produce("preload", [topic], count=EVENTS, keys=keys)
        rig.wait_seen(seen, first + EVENTS, 120)
        times = sorted(acted for *_, acted, _ in seen.pairs())[first:]
    what = f"{EVENTS:,} events of 0 to 5 ms random work, one partition, {keys} keys, concurrency {concurrency}."
    figures = {"seconds": round((times[-1] - times[0]) / 1e9, 2)}
    return Result(name=f"work, {name}", what=what, figures=figures, bars=[Bar(figure="seconds", at_most=bar)])


def poison(rig: Rig, options: Namespace) -> list[Result]:
    """Drains with one event in a hundred that fails, between drains without: medians of alternating rounds."""
    (topic,) = rig.topics("poison", 1, 4)
    rig.produce("preload", [topic], partitions=4, count=POISON_EVENTS)
    rates: dict[str, list[float]] = {"counted": [], "poisoned": [], "counted_again": []}
    for number in range(options.rounds):
        for name, found in rates.items():
            found.append(_drained(rig, topic, f"{name}-{number}", name.removesuffix("_again")))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    without = (medians["counted"] + medians["counted_again"]) / 2
    figures: dict[str, Any] = {f"{name}_events_per_s": round(rate) for name, rate in medians.items()}
    figures["control_percent"] = round(100 * abs(medians["counted"] - medians["counted_again"]) / without, 1)
    figures["ratio"] = round(medians["poisoned"] / without, 2)
    figures["rounds"] = {name: [round(rate) for rate in found] for name, found in rates.items()}
    what = (
        f"{POISON_EVENTS:,} JSON events of 300 B through a no-op function, and with one in a hundred failing; medians "
        f"of {options.rounds} alternating rounds. Counted, counted again: the control."
    )
    return [Result(name="poison", what=what, figures=figures, bars=[Bar(figure="ratio", at_least=0.8)])]


def _drained(rig: Rig, topic: str, name: str, function: str) -> float:
    process, seen = rig.prepared(rig.pipelines(f"drain-{name}", [topic], function))
    with process:
        process.wait_ready(120)
        until(lambda: rig.broker.lag(f"drain-{name}-{topic}", topic) == 0, 300, "all is committed", every_s=0.2)
        process.stop(60)
    count, seconds = seen.span(before=POISON_EVENTS // 10)
    return count / seconds


def takeover(rig: Rig, options: Namespace) -> list[Result]:  # noqa: ARG001 - a single event
    """kill -9 of one of two instances: until the other has its partitions, and what is repeated."""
    (topic,) = rig.topics("takeover", 1, 4)
    pipelines = rig.pipelines("takeover", [topic], "timed")
    (first, seen), (second, also_seen) = rig.prepared(pipelines), rig.prepared(pipelines)
    with first, second:
        for process in (first, second):
            process.wait_ready(120)
        rig.primed([topic], seen)
        producer = rig.producer("pace", [topic], rate=200, seconds=60)
        until(lambda: seen.count() > 500 and also_seen.count() > 500, 60, "both are at work")
        killed = time.time_ns()
        first.kill()
        until(lambda: _recovered(also_seen, killed), 60, "the other has all partitions")
        producer.wait()
        second.stop(60)
    acted = {number: at for _, _, at, number in also_seen.pairs()} | {n: at for _, _, at, n in seen.pairs()}
    late = max((acted[n] - made) / 1e9 for made, _, _, n in also_seen.pairs())
    repeated = len({n for *_, n in seen.pairs()} & {n for *_, n in also_seen.pairs()})
    figures = {"seconds_longest_wait": round(late, 2), "repeated_events": repeated, "seen": len(acted)}
    what = f"Two instances on four partitions, 200 events/s, session timeout {SESSION_S:g} s; one is killed with -9."
    bars = [Bar(figure="seconds_longest_wait", at_most=SESSION_S + 3)]
    return [Result(name="takeover", what=what, figures=figures, bars=bars)]


def _recovered(seen: Seen, killed: int) -> bool:
    """Whether events that were produced while nobody had their partition have been acted on."""
    return any(acted - made > 3e9 and made > killed for made, _, acted, _ in seen.pairs())
