"""Many pipelines in one instance: a hundred with ten events per second each, and two hundred with none."""

from __future__ import annotations

import time
from argparse import Namespace

from tests.support.instance import PenstockProcess

from bench.engine.latency import COLD_AFTER_S, WARM_UP_S
from bench.engine.rig import Rig, Usage
from bench.report import Bar, Result


def warm(rig: Rig, options: Namespace) -> list[Result]:
    """A hundred pipelines, each with its own topic."""
    count, rate = options.pipelines, 10 * options.pipelines
    topics = rig.topics("warm", count, 1)
    with rig.instance(rig.pipelines("warm", topics, "timed")) as (process, seen):
        sent = rig.primed(topics, seen)
        # Twice the usual warm-up: every pipeline has to get into the shared lanes first.
        lead_s = 2 * WARM_UP_S
        producing = rig.producer("pace", topics, rate=rate, seconds=lead_s + options.seconds, first=sent)
        measured = sent + int(rate * lead_s)
        rig.wait_seen(seen, measured, 60)
        jobs = _spark_jobs(process)
        usage = Usage(process)
        failed = producing.wait() != 0
        used = usage.close()
        jobs = _spark_jobs(process) - jobs
        total = measured + int(rate * options.seconds)
        problems = ["the producer failed"] if failed else []
        try:
            rig.wait_seen(seen, total, 60)
        except AssertionError as error:
            problems.append(str(error))
    # A thousand produce requests a second, one per event, are more than a small broker takes evenly: its queue, up to
    # seconds, is the producer's wait and not the product's. Both are shown.
    figures = seen.latencies_in_broker(first=measured).figures()
    figures |= {f"produced_{name}": value for name, value in seen.latencies(first=measured).figures().items()}
    figures |= {"seen_twice": seen.twice(), "spark_jobs": jobs} | used
    what = (
        f"{count} pipelines, a topic of one partition each, 10 events/s each, for {options.seconds:g} s; "
        "from the broker's append to the action, and from the producer's call."
    )
    bars = [Bar(figure="p50_ms", at_most=20), Bar(figure="p99_ms", at_most=250)]
    bars.append(Bar(figure="cpu_percent_of_a_core", at_most=90))
    return [Result(name=f"{count} warm pipelines", what=what, figures=figures, bars=bars, problems=problems)]


def cold(rig: Rig, options: Namespace) -> list[Result]:
    """Two hundred pipelines without events."""
    topics = rig.topics("cold", options.cold_pipelines, 1)
    with rig.instance(rig.pipelines("cold", topics, "timed")) as (process, _):
        # Until every pipeline has gone cold, and their start is over.
        time.sleep(COLD_AFTER_S + 20)
        jobs = _spark_jobs(process)
        usage = Usage(process)
        time.sleep(60)
        used = usage.close()
        jobs = _spark_jobs(process) - jobs
    what = f"{len(topics)} pipelines without events, over 60 s after settling; the jobs keep the lanes warm."
    bars = [Bar(figure="cpu_percent_of_a_core", at_most=15)]
    return [Result(name=f"{len(topics)} cold pipelines", what=what, figures={"spark_jobs": jobs} | used, bars=bars)]


def _spark_jobs(process: PenstockProcess) -> int:
    return int(process.metric("penstock_spark_jobs_total"))
