"""A schedule as plain data, drawn from a seed: topics, pipelines, events, instances, faults. What a seed means is
decided here once; what happens then is decided by the scheduler's own generator, from the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from tests.simulation.faults import Fault, Rates, draw_faults
from tests.simulation.log import Nature

Kind = Literal["plain", "batch", "keyed", "deferred", "table", "work order"]
KINDS: tuple[Kind, ...] = ("plain", "batch", "keyed", "deferred", "table", "work order")

SESSION_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class PipelineModel:
    """A pipeline as the world knows it. Its group has its name."""

    name: str
    kind: Kind
    topics: tuple[str, ...]
    start: Literal["earliest", "latest"] = "earliest"
    stateless: bool = False
    max_records: int = 8
    attempts: int = 3
    backoff: float = 1.0
    timeout: float = 3.0
    window: float = 1.0
    drain_timeout: float = 4.0

    @property
    def repeats_per_death(self) -> int:
        """I10: one window, and what it held open."""
        return self.max_records + 8


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    at: float
    topic: str
    partition: float
    """A share of the topic's partitions at that time."""
    key: bytes
    nature: Nature
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int
    topics: tuple[tuple[str, int], ...]
    pipelines: tuple[PipelineModel, ...]
    instances: tuple[float, ...]
    """When each is started."""
    events: tuple[PlannedEvent, ...]
    faults: tuple[Fault, ...]
    rates: Rates
    slowness: float = 1.0
    """Seconds beyond one that a slow event takes at most."""
    horizon: float = 20.0
    """Seconds in which events and faults begin."""

    def without_fault(self, index: int) -> Schedule:
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])

    def describe(self) -> str:
        lines = [f"seed {self.seed}: {len(self.instances)} instances started at {[round(t, 1) for t in self.instances]}"]
        lines += [f"  topic {name} with {count} partitions" for name, count in self.topics]
        lines += [f"  pipeline {p.name}: {p.kind} of {', '.join(p.topics)}, start {p.start}" for p in self.pipelines]
        odd = [e for e in self.events if e.nature not in ("plain", "filtered")]
        lines.append(f"  {len(self.events)} events, of them {[(e.nature, e.topic, round(e.at, 1)) for e in odd]}")
        lines += [f"  {fault}" for fault in self.faults]
        lines.append(f"  {self.rates}")
        return "\n".join(lines)


_COSTLY: tuple[Nature, ...] = ("killer", "stuck", "hanging")
"""Each takes seconds of simulated time to be found; a schedule has few of them."""
_ODD: tuple[Nature, ...] = ("poison", "undecodable", "flaky", "killer", "stuck", "hanging", "slow")


def draw(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    if rng.random() < 0.01:
        return _crowd(seed, rng)
    topics = tuple((f"t{n}", rng.choice((1, 1, 2, 3))) for n in range(rng.choice((1, 1, 2))))
    names = [name for name, _ in topics]
    pipelines = tuple(
        PipelineModel(
            f"p{n}",
            kind=(kind := rng.choice(KINDS)),
            topics=(rng.choice(names),),
            start="latest" if rng.random() < 0.25 else "earliest",
            stateless=kind == "plain" and rng.random() < 0.05,
            max_records=rng.choice((3, 8, 20)),
            attempts=rng.choice((1, 3, 4)),
            backoff=rng.choice((0.3, 1.5, 4.0)),
        )
        for n in range(rng.choice((1, 2, 2, 3)))
    )
    instances = (0.0, *(rng.choice((0.0, 0.1, rng.random() * 12)) for _ in range(rng.choice((0, 1, 1, 2)))))
    horizon = 20.0
    odd = rng.sample(_ODD, rng.choice((0, 1, 2, 3)))
    share = rng.choice((0.05, 0.15, 0.3))
    return Schedule(
        seed,
        topics,
        pipelines,
        instances,
        _events(rng, names, horizon, odd, share),
        draw_faults(rng, rng.choice((0, 1, 2, 2, 3, 4, 6)), horizon),
        _rates(rng),
        slowness=rng.choice((0.5, 2.0, 8.0)),
        horizon=horizon,
    )


def _events(
    rng: random.Random, names: list[str], horizon: float, odd: list[Nature], share: float
) -> tuple[PlannedEvent, ...]:
    events = []
    costly = 0
    for _ in range(rng.choice((5, 15, 30, 60))):
        nature: Nature = "filtered" if rng.random() < 0.1 else "plain"
        if odd and rng.random() < share:
            nature = rng.choice(odd)
            if nature in _COSTLY:
                costly += 1
                nature = nature if costly <= 3 else "poison"
        at = 0.0 if rng.random() < 0.3 else rng.random() * horizon
        key = rng.choice((b"a", b"b", b"c"))
        events.append(PlannedEvent(at, rng.choice(names), rng.random(), key, nature, rng.choice((1, 1, 2, 9))))
    return tuple(sorted(events, key=lambda event: event.at))


def _rates(rng: random.Random) -> Rates:
    def sometimes(chance: float, rate: float) -> float:
        return rate if rng.random() < chance else 0.0

    return Rates(
        worker_dies=sometimes(0.2, 0.02),
        commit_refused=sometimes(0.3, 0.15),
        commit_unknown=sometimes(0.2, 0.1),
        transaction_unknown=sometimes(0.3, 0.1),
        returns_twice=sometimes(0.1, 0.1),
        skips_event=sometimes(0.05, 0.05),
    )


def _crowd(seed: int, rng: random.Random) -> Schedule:
    """More pipelines in one lane than the in-flight log of version 0.1 had room for."""
    topics = (("t0", 1),)
    pipelines = tuple(PipelineModel(f"p{n}", "plain", ("t0",), max_records=20) for n in range(66))
    events = tuple(
        PlannedEvent(rng.random() * 2, "t0", 0.0, b"a", rng.choice(("plain", "plain", "poison"))) for _ in range(3)
    )
    faults = (Fault("kill worker", 0.5 + rng.random() * 2),)
    return Schedule(seed, topics, pipelines, (0.0,), events, faults, Rates(), horizon=4.0)
