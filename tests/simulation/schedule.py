"""A schedule as plain data, drawn from a seed: topics, pipelines, events, instances, faults. What a seed means is
decided here once; what happens then is decided by the scheduler's own generator, from the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

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
    salt: int = 0
    """Another interleaving of the same schedule."""

    def describe(self) -> str:
        lines = [
            f"seed {self.seed}: {len(self.instances)} instances started at {[round(t, 1) for t in self.instances]}"
        ]
        lines += [f"  topic {name} with {count} partitions" for name, count in self.topics]
        lines += [
            f"  pipeline {p.name}: {'stateless ' if p.stateless else ''}{p.kind} of {p.topics[0]}, start {p.start}"
            for p in self.pipelines
        ]
        odd = [e for e in self.events if e.nature not in ("plain", "filtered")]
        lines.append(f"  {len(self.events)} events, of them {[(e.nature, e.topic, round(e.at, 1)) for e in odd]}")
        lines += [f"  {fault}" for fault in self.faults]
        lines.append(f"  {self.rates}")
        return "\n".join(lines)


_COSTLY: tuple[Nature, ...] = ("killer", "stuck", "hanging")
"""Each takes seconds of simulated time to be found; a schedule has few of them."""
_ODD: tuple[Nature, ...] = ("poison", "undecodable", "flaky", "killer", "stuck", "hanging", "slow")


Scene = Callable[["Schedule", random.Random], "Schedule"]
"""Changes a schedule so that it leads to a rare situation."""


def draw(seed: int, scene: Scene | None = None) -> Schedule:
    """The schedule of a seed: a scene that leads to a rare situation, or anything; or the scene that is given."""
    rng = random.Random(seed)
    chance = rng.random()
    if scene is not None:
        return scene(_anything(seed, rng), rng)
    if chance < 0.004:
        return crowd(_anything(seed, rng), rng)
    schedule = _anything(seed, rng)
    return rng.choice(SCENES)(schedule, rng) if chance < 0.45 else schedule


def _anything(seed: int, rng: random.Random) -> Schedule:
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
    return Schedule(
        seed,
        topics,
        pipelines,
        instances,
        _events(rng, names, horizon, odd, rng.choice((0.05, 0.15, 0.3))),
        draw_faults(rng, rng.choice((0, 1, 2, 2, 3, 4, 6)), horizon),
        _rates(rng),
        slowness=rng.choice((0.5, 2.0, 8.0)),
        horizon=horizon,
    )


# -- scenes that lead to rare situations ---------------------------------------------------


def _only(schedule: Schedule, **changes: Any) -> Schedule:
    """One pipeline of the schedule, changed, on the first topic with at least two partitions."""
    name, partitions = schedule.topics[0]
    pipeline = replace(schedule.pipelines[0], topics=(name,), stateless=False, **changes)
    return replace(schedule, topics=((name, max(2, partitions)), *schedule.topics[1:]), pipelines=(pipeline,))


def _with_nature(schedule: Schedule, rng: random.Random, nature: Nature, share: float) -> Schedule:
    events = tuple(replace(e, nature=nature) if rng.random() < share else e for e in schedule.events)
    return replace(schedule, events=events)


def _slow_drain(schedule: Schedule, rng: random.Random) -> Schedule:
    """Partitions are revoked while an act takes longer than `drain_timeout`."""
    schedule = _with_nature(_only(schedule, kind="plain"), rng, "slow", 0.3)
    return replace(schedule, instances=(0.0, 2.0 + rng.random() * 8), slowness=12.0)


def _retry_and_revoke(schedule: Schedule, rng: random.Random) -> Schedule:
    kind = rng.choice(("plain", "keyed", "deferred"))
    schedule = _with_nature(_only(schedule, kind=kind, attempts=4, backoff=4.0), rng, "flaky", 0.3)
    return replace(schedule, instances=(0.0, 2.0 + rng.random() * 10))


def _retry_and_recreate(schedule: Schedule, rng: random.Random) -> Schedule:
    schedule = _retry_and_revoke(schedule, rng)
    return replace(schedule, faults=(Fault("recreate topic", 3 + rng.random() * 8, pick=0.0, also=rng.random()),))


def _deferral_and_revoke(schedule: Schedule, rng: random.Random) -> Schedule:
    return replace(_only(schedule, kind="deferred"), instances=(0.0, 2.0 + rng.random() * 10))


def _gap(schedule: Schedule, rng: random.Random) -> Schedule:
    """Records are deleted while the pipeline is stopped."""
    schedule = _only(schedule, kind=rng.choice(("table", "work order", "plain", "keyed")), start="earliest")
    stop = Fault("stop", 2 + rng.random() * 3, seconds=10.0)
    deletions = tuple(
        Fault("delete records", 9 + rng.random(), pick=n / 2, also=0.7 + rng.random() * 0.3) for n in (0, 1)
    )
    return replace(schedule, faults=(stop, *deletions, *schedule.faults[:1]))


def _stateless_outage(schedule: Schedule, rng: random.Random) -> Schedule:
    schedule = _only(schedule, kind="plain", start="latest")
    pipelines = (replace(schedule.pipelines[0], stateless=True),)
    return replace(schedule, pipelines=pipelines, faults=(Fault("broker away", 4 + rng.random() * 4, seconds=12.0),))


def _settle_and_die(schedule: Schedule, rng: random.Random) -> Schedule:
    schedule = _with_nature(schedule, rng, "poison", 0.2)
    hook = rng.choice(("after settle", "before commit"))
    return replace(schedule, faults=(Fault("crash", rng.random() * 8, hook, 2.0), *schedule.faults[:1]))


def _failing_without_store(schedule: Schedule, rng: random.Random) -> Schedule:
    schedule = _with_nature(schedule, rng, "poison", 0.3)
    more = rng.choice((Fault("restart", 8.0, pick=rng.random()), Fault("reload", 8.0), Fault("kill worker", 8.0)))
    return replace(schedule, faults=(Fault("store away", 3 + rng.random() * 4, seconds=8.0), more))


def late_commits(schedule: Schedule, rng: random.Random) -> Schedule:
    """A member is closed while its commit has no answer: it leaves late, beside its successor (F19)."""
    schedule = _only(schedule, kind=rng.choice(("plain", "keyed", "table")), start="earliest")
    if rng.random() < 0.5:
        reloads = tuple(Fault("reload", rng.random() * 15, pick=rng.random()) for _ in range(3))
        rates = replace(schedule.rates, commit_unknown=0.4)
        return replace(schedule, rates=rates, faults=(*reloads, Fault("broker away", 5.0, seconds=4.0)))
    cut = 2 + rng.random() * 3
    faults = (Fault("cut", cut, seconds=12 + rng.random() * 2), Fault("stop", cut + 4 + rng.random() * 3, seconds=0.7))
    events = tuple(replace(event, nature="plain") for event in schedule.events)
    return replace(schedule, instances=(0.0,), faults=faults, events=events, rates=Rates())


def _wrong_sums(schedule: Schedule, rng: random.Random) -> Schedule:
    return replace(_only(schedule, kind="plain"), rates=replace(schedule.rates, skips_event=0.1))


def contended_target(schedule: Schedule, rng: random.Random) -> Schedule:
    """Frozen writers wake up beside their successors, and answers of the target are lost."""
    schedule = _only(schedule, kind=rng.choice(("table", "work order")))
    hooks = ("before write", None)
    freezes = tuple(Fault("freeze", rng.random() * 8, hook, 13.0, rng.random(), rng.random() / 2) for hook in hooks)
    rates = replace(schedule.rates, transaction_unknown=0.2, commit_unknown=0.1)
    return replace(schedule, instances=(0.0, 0.1), rates=rates, faults=freezes)


def lost_and_recreated(schedule: Schedule, rng: random.Random) -> Schedule:
    """An act outlives the session of its instance; when its outcome comes, the topic is another one."""
    schedule = _with_nature(_only(schedule, kind=rng.choice(("plain", "batch")), timeout=30.0), rng, "slow", 0.5)
    cut = Fault("cut", 1 + rng.random() * 3, seconds=12.0 + rng.random())
    recreate = Fault("recreate topic", 6 + rng.random() * 6, also=0.9 + rng.random() * 0.1)
    return replace(schedule, instances=(0.0,), faults=(cut, recreate), slowness=20.0, rates=Rates())


def _detached(schedule: Schedule, rng: random.Random) -> Schedule:
    return replace(_with_nature(schedule, rng, "slow", 0.3), slowness=4.0)


def _frozen_owner(schedule: Schedule, rng: random.Random) -> Schedule:
    freezes = tuple(
        Fault("freeze", rng.random() * 12, "window begun", 12.0 + rng.random() * 4, pick=n / 2, also=rng.random())
        for n in (0, 1)
    )
    return replace(_with_nature(_only(schedule), rng, "poison", 0.2), instances=(0.0, 0.1), faults=freezes)


SCENES: tuple[Scene, ...] = (
    _slow_drain,
    _retry_and_revoke,
    _retry_and_recreate,
    _deferral_and_revoke,
    _gap,
    _stateless_outage,
    _settle_and_die,
    _failing_without_store,
    late_commits,
    _wrong_sums,
    contended_target,
    lost_and_recreated,
    _detached,
    _frozen_owner,
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


def crowd(schedule: Schedule, rng: random.Random) -> Schedule:
    """More pipelines in one lane than the in-flight log of version 0.1 had room for."""
    topics = (("t0", 1),)
    pipelines = tuple(PipelineModel(f"p{n}", "plain", ("t0",), max_records=20) for n in range(66))
    events = tuple(
        PlannedEvent(rng.random() * 2, "t0", 0.0, b"a", rng.choice(("plain", "plain", "poison"))) for _ in range(3)
    )
    faults = (Fault("kill worker", 0.5 + rng.random() * 2),)
    return Schedule(schedule.seed, topics, pipelines, (0.0,), events, faults, Rates(), horizon=4.0)
