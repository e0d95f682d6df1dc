"""`python -m tests.simulation --minutes 60 --seed 7`: a campaign with the real driver; its summary, and every failing
schedule shrunk, with a trace."""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from tests.simulation.campaign import Failure, Summary, campaign, run, shrink
from tests.simulation.instance import MakeDriver
from tests.simulation.schedule import draw


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="of the campaign; a fresh one by default")
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--schedules", type=int, default=None)
    parser.add_argument("--replay", type=int, default=None, help="one schedule, by its own seed, with a trace")
    parser.add_argument("--lines", type=int, default=60, help="of a trace")
    parser.add_argument("--model", action="store_true", help="the model driver instead of the real one")
    parser.add_argument("--out", type=Path, default=None, help="write the summary as JSON")
    given = parser.parse_args()
    make = _driver(model=given.model)
    if given.replay is not None:
        return _replay(given.replay, make, given.lines)
    seconds = given.minutes * 60 if given.minutes is not None else given.seconds
    if seconds is None and given.schedules is None:
        seconds = 60.0
    seed = given.seed if given.seed is not None else random.SystemRandom().getrandbits(31)
    print(f"seed {seed}", flush=True)  # noqa: T201 - the output of a command
    summary = campaign(make, seed=seed, seconds=seconds, schedules=given.schedules, on_progress=_progress)
    print(summary.text())  # noqa: T201 - the output of a command
    for failure in summary.failures[:3]:
        shrink(failure, make)
        print(failure.report(make, given.lines))  # noqa: T201 - the output of a command
    if given.out is not None:
        given.out.write_text(json.dumps(summary.json(), indent=2) + "\n")
    return 1 if summary.failures or summary.missing() else 0


def _driver(*, model: bool) -> MakeDriver:
    if model:
        from tests.simulation.model_driver import model_driver  # noqa: PLC0415 - the one that is wanted

        return model_driver()
    from tests.simulation.real_driver import real_driver  # noqa: PLC0415 - as above

    return real_driver


def _replay(seed: int, make: MakeDriver, lines: int) -> int:
    schedule = draw(seed)
    world = run(schedule, make)
    print(Failure(schedule, world.judge.findings).report(make, lines))  # noqa: T201 - the output of a command
    return 1 if world.judge.findings else 0


def _progress(summary: Summary) -> None:
    print(f"  {summary.schedules} schedules, {len(summary.failures)} with findings", file=sys.stderr, flush=True)  # noqa: T201 - the output of a command


if __name__ == "__main__":
    raise SystemExit(main())
