"""Campaigns: many schedules, one after the other; a failing one is shrunk, traced and printed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.simulation import logs
from tests.simulation.group import simulated_clients
from tests.simulation.instance import MakeDriver
from tests.simulation.judge import Finding
from tests.simulation.schedule import SCENES, Scene, Schedule, crowd, draw
from tests.simulation.situations import SITUATIONS
from tests.simulation.world import World

SHRINK_SECONDS = 20.0
Tweak = Callable[[World], None]


@dataclass(slots=True)
class Failure:
    """A schedule in which a promise was broken, as drawn and as small as it could be made."""

    schedule: Schedule
    findings: list[Finding]
    smallest: Schedule | None = None

    def report(self, make: MakeDriver, lines: int = 60) -> str:
        """Readable: the smallest schedule, the trace before the first finding, and the schedule as code."""
        schedule = self.smallest or self.schedule
        world = run(schedule, make, trace=True)
        found = [at for at, (_, text) in enumerate(world.notes) if text.startswith("FOUND")]
        end = found[0] + 3 if found else len(world.notes)
        trace = [f"{moment:10.3f} {text[:300]}" for moment, text in world.notes[max(0, end - lines) : end]]
        findings = [str(finding) for finding in world.judge.findings or self.findings]
        return "\n".join(
            [schedule.describe(), *trace, *findings, "", "to keep it, add to seeds.py:", f"    {schedule!r},"]
        )


@dataclass(slots=True)
class Summary:
    seed: int
    schedules: int = 0
    steps: int = 0
    acts: int = 0
    seconds: float = 0.0
    simulated_seconds: float = 0.0
    situations: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def missing(self) -> list[str]:
        """Rare situations that were not reached."""
        return [name for name in SITUATIONS if not self.situations[name]]

    def text(self) -> str:
        rate = self.schedules / self.seconds * 60 if self.seconds else 0.0
        lines = [
            f"seed {self.seed}: {self.schedules} schedules in {self.seconds:.1f} s ({rate:.0f} a minute)",
            f"{self.steps} steps, {self.acts} acts, {self.simulated_seconds / 3600:.1f} simulated hours",
            *(f"  {self.situations[name]:8d}  {name}" for name in SITUATIONS),
            f"{len(self.failures)} schedules with findings",
        ]
        lines += [f"  seed {f.schedule.seed}: {f.findings[0]}" for f in self.failures[:20]]
        if self.missing():
            lines.append(f"not reached: {', '.join(self.missing())}")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "schedules": self.schedules,
            "schedules_per_minute": round(self.schedules / self.seconds * 60) if self.seconds else 0,
            "seconds": round(self.seconds, 1),
            "steps": self.steps,
            "acts": self.acts,
            "simulated_seconds": round(self.simulated_seconds),
            "situations": {name: self.situations[name] for name in SITUATIONS},
            "missing": self.missing(),
            "findings": [
                {"seed": f.schedule.seed, "found": [asdict(finding) for finding in f.findings[:3]]}
                for f in self.failures
            ],
        }


def run(schedule: Schedule, make: MakeDriver, *, trace: bool = False, tweak: Tweak | None = None) -> World:
    """One schedule, from its start to the judge's verdict."""
    world = World(schedule, make, trace=trace, tweak=tweak)
    with logs.attend(world), simulated_clients(lambda: world):
        world.run()
    return world


def seeds(seed: int) -> Iterator[int]:
    """Seeds of a campaign's schedules."""
    rng = random.Random(seed)
    while True:
        yield rng.getrandbits(40)


def campaign(
    make: MakeDriver,
    *,
    seed: int,
    seconds: float | None = None,
    schedules: int | None = None,
    stop_at: int = 5,
    until_reached: float = 0.0,
    accept: Callable[[Schedule, list[Finding]], bool] = lambda schedule, findings: True,
    scene: Scene | None = None,
    change: Callable[[Schedule], Schedule] = lambda schedule: schedule,
    tweak: Tweak | None = None,
    on_progress: Callable[[Summary], None] | None = None,
) -> Summary:
    """Run schedules for so many seconds, or so many schedules; end early after `stop_at` failing ones.

    `until_reached`: so many seconds more, until every rare situation was reached.
    `accept` decides whether findings count; `scene`: only schedules of this kind; `change` is applied to each schedule
    that is drawn, `tweak` to each world.
    """
    summary = Summary(seed)
    began = time.monotonic()
    # Each scene first: also a short campaign on a busy machine has been to the rare situations.
    scenes = iter(() if scene is not None else (*SCENES, crowd) * 2)
    for number in seeds(seed):
        summary.seconds = time.monotonic() - began
        if seconds is not None and summary.seconds >= seconds and not _goes_on(summary, seconds, until_reached):
            break
        if schedules is not None and summary.schedules >= schedules:
            break
        schedule = change(draw(number, next(scenes, scene)))
        world = run(schedule, make, tweak=tweak)
        summary.schedules += 1
        summary.steps += world.scheduler.steps
        summary.acts += world.judge.acts
        summary.simulated_seconds += world.now - world.began
        summary.situations.update(world.situations.reached)
        if world.judge.findings and accept(schedule, world.judge.findings):
            summary.failures.append(Failure(schedule, world.judge.findings))
            if len(summary.failures) >= stop_at:
                break
        if on_progress is not None and summary.schedules % 500 == 0:
            on_progress(summary)
    summary.seconds = time.monotonic() - began
    return summary


def _goes_on(summary: Summary, seconds: float, until_reached: float) -> bool:
    return bool(summary.missing()) and summary.seconds < seconds + until_reached


def shrink(failure: Failure, make: MakeDriver, *, seconds: float = SHRINK_SECONDS) -> Schedule:
    """Leave out faults, events, pipelines and instances, as long as the same promise is broken."""
    promise = failure.findings[0].promise
    end = time.monotonic() + seconds
    smallest = failure.schedule
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in _smaller(smallest):
            if time.monotonic() >= end:
                break
            for salt in range(3):
                tried = replace(candidate, salt=salt)
                if any(f.promise == promise for f in run(tried, make).judge.findings):
                    smallest, progress = tried, True
                    break
            if progress:
                break
    failure.smallest = smallest
    return smallest


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with something left out, the largest parts first."""
    for index in range(len(schedule.pipelines)):
        if len(schedule.pipelines) > 1:
            yield replace(schedule, pipelines=_without(schedule.pipelines, index, 1))
    size = len(schedule.events) // 2
    while size >= 1:
        for index in range(0, len(schedule.events), size):
            yield replace(schedule, events=_without(schedule.events, index, size))
        size //= 2 if size > 2 else 3
    for index in range(len(schedule.faults)):
        yield replace(schedule, faults=_without(schedule.faults, index, 1))
    for index in range(1, len(schedule.instances)):
        yield replace(schedule, instances=_without(schedule.instances, index, 1))
    for name, rate in asdict(schedule.rates).items():
        if rate:
            yield replace(schedule, rates=replace(schedule.rates, **{name: 0.0}))


def _without(items: tuple[Any, ...], index: int, count: int) -> tuple[Any, ...]:
    return items[:index] + items[index + count :]
