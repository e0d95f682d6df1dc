"""How long after `penstock run` events are consumed."""

from __future__ import annotations

import time
from argparse import Namespace

from tests.support.waiting import until

from bench.engine.rig import Rig
from bench.report import Bar, Result


def start(rig: Rig, _options: Namespace) -> list[Result]:
    """The first start on this machine and three more, each until ready and until its first event is acted on."""
    topic = rig.topics("start", 1, 4)
    folder = rig.pipelines("start", topic, "timed")
    ready: list[float] = []
    acted: list[float] = []
    for number in range(4):
        # An event that waits for the instance: acted on as soon as it really consumes.
        rig.produce("pace", topic, rate=1, seconds=1, first=number)
        process, seen = rig.prepared(folder)
        began, began_ns = time.monotonic(), time.time_ns()
        with process:
            until(process.is_ready, 120, "penstock is ready", every_s=0.02)
            ready.append(time.monotonic() - began)
            rig.wait_seen(seen, 1, 60)
            acted.append((seen.pairs()[0][2] - began_ns) / 1e9)
            process.stop(60)
    figures = {
        "first_start_ready_s": round(ready[0], 2),
        "first_start_acted_s": round(acted[0], 2),
        "ready_s": round(max(ready[1:]), 2),
        "acted_s": round(max(acted[1:]), 2),
        "ready_s_each": [round(each, 2) for each in ready],
        "acted_s_each": [round(each, 2) for each in acted],
    }
    what = "From the command to ready, and to the action of an event that waited; slowest of three later starts."
    bars = [Bar(figure="ready_s", at_most=8)]
    return [Result(name="start", what=what, figures=figures, bars=bars)]
