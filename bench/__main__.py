"""`python -m bench [NAME…]`: measure and write the results."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.children import CHILDREN

from bench.console import home, tap
from bench.datahub import compare, readers
from bench.engine import drain, latency, many, replay, start, work
from bench.engine.rig import Rig
from bench.machine import facts
from bench.report import RESULTS, Result, show, write
from bench.tables import gobblin, rows, stored
from bench.triggers import claims, history, intake, resting, runs

BENCHES: dict[str, Callable[[Rig, argparse.Namespace], list[Result]]] = {
    "start": start.start,
    "idle": latency.idle,
    "busy": latency.busy,
    "drain": drain.drain,
    "warm": many.warm,
    "cold": many.cold,
    "replay": replay.replay,
    "parallel": work.parallel,
    "poison": work.poison,
    "takeover": work.takeover,
    "datahub": compare.datahub,
    "readers": readers.readers,
    "tables": rows.tables,
    "gobblin": gobblin.gobblin,
    "stored": stored.stored,
    "runs": runs.runs,
    "claims": claims.claims,
    "intake": intake.intake,
    "history": history.history,
    "resting": resting.resting,
    "console": home.console,
    "tap": tap.tap,
}
"""In the order in which they run; each gets a broker of its own."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHES)}; default all")
    parser.add_argument("--list", action="store_true", help="show what there is")
    parser.add_argument("--seconds", type=float, default=20, help="length of each latency run")
    parser.add_argument("--events", type=int, default=3_000_000, help="events of the drain")
    parser.add_argument("--samples", type=int, default=40, help="single events of the idle run")
    parser.add_argument("--cold-samples", type=int, default=4, help="single events a minute apart")
    parser.add_argument(
        "--idle-minutes", type=float, default=0, help="also measure after so many minutes without events"
    )
    parser.add_argument("--letters", type=int, default=50_000, help="dead letters of the replay")
    parser.add_argument("--pipelines", type=int, default=100, help="pipelines of the warm run")
    parser.add_argument("--cold-pipelines", type=int, default=200, help="pipelines of the cold run")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of comparisons (datahub, tables)")
    parser.add_argument("--work-orders", type=int, default=history.COUNT, help="work orders of the history")
    parser.add_argument("--cases", nargs="*", help="only its cases whose names contain one of these; `latency` too")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    return given


def main() -> None:
    options = _options()
    if options.list:
        for name, work in BENCHES.items():
            print(f"{name:<8}{(work.__doc__ or '').splitlines()[0]}")
        return
    # What was measured before an interruption is written all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    machine = facts()
    results: list[Result] = []
    try:
        for name in [name for name in BENCHES if name in (options.names or BENCHES)]:
            with Rig() as rig:
                found = BENCHES[name](rig, options)
            for result in found:
                show(result)
            results += found
    finally:
        CHILDREN.close()
        if results:
            print(f"\nwritten to {write(results, machine, options.results)}")
    if any(result.problems for result in results):
        raise SystemExit("some figures are not valid")


if __name__ == "__main__":
    main()
