"""How fast a backlog goes: small JSON events through a no-op function, and the bare consumer loop beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import Namespace

from tests.support.waiting import until

from bench.engine.rig import ROOT, Rig, Usage
from bench.engine.seen import Seen
from bench.report import Bar, Result

PARTITIONS = 4


def drain(rig: Rig, options: Namespace) -> list[Result]:
    """Peer, product, peer again: the two peer runs are the A/A control."""
    topic = rig.topics("drain", 1, PARTITIONS)
    rig.produce("preload", topic, partitions=PARTITIONS, count=options.events)
    first = _peer(rig, topic[0], "peer-a", options.events)
    product = _product(rig, topic[0], options.events)
    again = _peer(rig, topic[0], "peer-b", options.events)
    product.figures["ratio_to_peer"] = round(product.figures["events_per_s"] / max(first, again), 2)
    what = "Bare confluent-kafka consumer and orjson in one process on the same topic, before and after the drain."
    figures = {
        "A_events_per_s": round(first),
        "A_again_events_per_s": round(again),
        "difference_percent": round(100 * abs(first - again) / first, 1),
    }
    return [product, Result(name="drain, peer and A/A control", what=what, figures=figures)]


def _product(rig: Rig, topic: str, events: int) -> Result:
    process, seen = rig.prepared(rig.pipelines("drain", [topic], "counted"))
    problems: list[str] = []
    began = time.time()
    with process:
        process.wait_ready(120)
        usage = Usage(process)
        try:
            until(
                lambda: rig.broker.lag(f"drain-{topic}", topic) == 0,
                120 + events / 20_000,
                "all is committed",
                every_s=0.5,
            )
        except AssertionError as error:
            problems.append(str(error))
        committed = time.time()
        used = usage.close()
        process.stop(60)
    count, seconds = seen.span()
    warm, warm_seconds = seen.span(before=events // 20)
    if count != events:
        problems.append(f"the sink saw {count:,} of {events:,} events")
    figures = {
        "events": count,
        "events_per_s": round(warm / warm_seconds),
        "events_per_s_from_the_first": round(count / seconds),
        "seconds_from_command_to_last_commit": round(committed - began, 1),
    }
    what = (
        f"{events:,} JSON events of 300 B in {PARTITIONS} partitions through a no-op function; rate at the sink, "
        "without the first twentieth."
    )
    bars = [Bar(figure="events_per_s", at_least=200_000)]
    return Result(name="drain", what=what, figures=figures | used, bars=bars, problems=problems)


def _peer(rig: Rig, topic: str, group: str, events: int) -> float:
    sink = rig.folder / group
    sink.mkdir()
    command = [sys.executable, "-m", "bench.engine.peer", "--bootstrap", rig.broker.bootstrap, "--topic", topic]
    command += ["--group", group, "--count", str(events)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"BENCH_SINK": str(sink)}, check=True)
    seen = Seen(sink)
    if seen.count() != events:
        raise RuntimeError(f"the peer saw {seen.count()} of {events} events")
    count, seconds = seen.span(before=events // 20)
    return count / seconds
