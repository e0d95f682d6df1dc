"""Replays: dead letters, or a range of a topic, through a pipeline's current spec, on a Spark of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.config.spec import BreakerSpec, PipelineSpec
from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError
from penstock.engine.replay import Replay, lane_count
from penstock.engine.replay_letters import LetterWork, Marks
from penstock.engine.replay_range import RangeWork
from penstock.engine.replay_work import ReplayHalted
from penstock.engine.spark import Spark
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.service.ranges import Range, find_ranges, point
from penstock.service.replayers import own_name
from penstock.service.specs import current_spec
from penstock.store import DeadLetterFilter, LetterCount, Store, Which

_LATECOMERS = 60_000
"""Milliseconds: letters that fail later than so long after the replay began are left for the next one. Not less, for
clocks differ."""


@dataclass(slots=True)
class Ended:
    """How the replay of one pipeline ended."""

    events: int = 0
    acted: int = 0
    filtered: int = 0
    failed: int = 0
    retried: int = 0
    halted: str | None = None
    """Why it ended before its end, by itself."""


# -- dead letters --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edit:
    """Another value for the one letter that is replayed; None is a null value."""

    value: bytes | None


@dataclass(frozen=True, slots=True)
class LetterPlan:
    """What a replay of dead letters is going to do."""

    counts: list[LetterCount]
    specs: dict[str, PipelineSpec]
    """By pipeline."""
    whiches: dict[str, Which]
    """By pipeline."""

    @property
    def letters(self) -> int:
        return sum(count.letters for count in self.counts)

    def as_dict(self) -> dict[str, Any]:
        return {"letters": self.letters, "partitions": [count._asdict() for count in self.counts]}


def plan_letters(store: Store, which: Which, files: Sequence[Path], edit: Edit | None = None) -> LetterPlan:
    """Refuses what cannot be replayed; nothing is changed."""
    if edit is not None and (isinstance(which, DeadLetterFilter) or len(set(which)) != 1):
        raise ConfigError("an edited value is for one letter", hint="give its id, and no other")
    if isinstance(which, DeadLetterFilter):
        which = replace(which, until=which.until or SYSTEM.now_ms() + _LATECOMERS)
    counts = store.dead_letters.claimable(which)
    names = sorted({count.pipeline for count in counts})
    specs = {name: current_spec(name, files, store) for name in names}
    return LetterPlan(counts, specs, dict(_by_pipeline(store, which, names)))


def _by_pipeline(store: Store, which: Which, names: Sequence[str]) -> Iterator[tuple[str, Which]]:
    if isinstance(which, DeadLetterFilter):
        yield from ((name, replace(which, pipeline=name)) for name in names)
        return
    found = [(letter_id, store.dead_letters.get(letter_id)) for letter_id in dict.fromkeys(which)]
    for name in names:
        yield name, [number for number, letter in found if letter is not None and letter.row.pipeline == name]


@dataclass(slots=True)
class LetterReplay:
    """A replay of dead letters that can be watched from another thread."""

    plan: LetterPlan
    store: Store
    max_replays: int
    rate: float | None = None
    edit: Edit | None = None
    note: str | None = None
    """What it waits for."""
    ended: dict[str, Ended] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.plan.letters

    @property
    def done(self) -> int:
        return sum(marks.replayed + marks.failed for marks in list(self.marks.values()))

    def run(self, spark: Spark, stop: threading.Event) -> None:
        """One pipeline after the other; what a stop leaves undone is released."""
        by = own_name()
        for name, spec in self.plan.specs.items():
            if stop.is_set():
                return
            work = LetterWork(
                self.store.dead_letters,
                self.plan.whiches[name],
                spec,
                by=by,
                max_replays=self.max_replays,
                lanes=lane_count(spec, spark.cores),
                edit=self.edit.value if self.edit else None,
                edits=self.edit is not None,
            )
            self.marks[name] = work.marks
            with work:
                # That much fails again is no news, and no reason to leave the rest untried.
                replay = Replay(spark, _without_breaker(spec), work, rate=self.rate, say=self._say)
                self.ended[name] = _run(replay, stop)

    def _say(self, note: str | None) -> None:
        self.note = note

    @property
    def failed(self) -> bool:
        return any(ended.failed or ended.halted for ended in self.ended.values())

    def as_dict(self) -> dict[str, Any]:
        each = {name: asdict(ended) | asdict(self.marks[name]) for name, ended in self.ended.items()}
        left = self.total - self.done
        return {"letters": self.total, "done": self.done, "left": max(0, left), "pipelines": each}


def _without_breaker(spec: PipelineSpec) -> PipelineSpec:
    options = spec.options.model_copy(update={"breaker": BreakerSpec(enabled=False)})
    return spec.model_copy(update={"options": options})


def _run(replay: Replay, stop: threading.Event) -> Ended:
    halted = None
    try:
        replay.run(stop)
    except ReplayHalted as error:
        halted = str(error)
    counts = replay.counts
    return Ended(counts.read, counts.acted, counts.filtered, counts.failed, counts.retried, halted)


# -- ranges --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangePlan:
    """What a replay of a range is going to do."""

    spec: PipelineSpec
    ranges: list[Range]
    topic_ids: dict[str, str]

    @property
    def offsets(self) -> int:
        return sum(each.offsets for each in self.ranges)

    def as_dict(self) -> dict[str, Any]:
        ranges = [each.as_dict() for each in self.ranges]
        return {"pipeline": self.spec.name, "offsets": self.offsets, "ranges": ranges}


def plan_range(
    spec: PipelineSpec, *, first: str, end: str, topic: str | None = None, partition: int | None = None
) -> RangePlan:
    """Where the range lies in each partition; refuses one that is not in the log. Nothing is changed."""
    begins, ends = point("--from", first), point("--to", end)
    cluster = ClusterView(KafkaClientConfig.of(spec.source.config.connection))
    ranges = find_ranges(cluster, spec, begins, ends, topic=topic, partition=partition)
    return RangePlan(spec, ranges, cluster.topic_ids({each.topic for each in ranges}))


@dataclass(slots=True)
class RangeReplay:
    """A replay of a range that can be watched from another thread."""

    plan: RangePlan
    store: Store
    rate: float | None = None
    note: str | None = None
    """What it waits for."""
    ended: Ended | None = None
    _replay: Replay | None = None

    @property
    def total(self) -> int:
        return self.plan.offsets

    @property
    def done(self) -> int:
        return self._replay.counts.read if self._replay is not None else 0

    def run(self, spark: Spark, stop: threading.Event) -> None:
        spec = self.plan.spec
        work = RangeWork(
            self.store,
            spec,
            {(each.topic, each.partition): (each.first, each.end) for each in self.plan.ranges},
            topic_ids=self.plan.topic_ids,
            lanes=lane_count(spec, spark.cores),
        )
        self._replay = Replay(spark, spec, work, rate=self.rate, say=self._say)
        self.ended = _run(self._replay, stop)
        summary = asdict(self.ended) | {"ranges": [each.as_dict() for each in self.plan.ranges]}
        self.store.pipelines.note(spec.name, None, "replay", _told(self.plan, self.ended), summary)

    def _say(self, note: str | None) -> None:
        self.note = note

    @property
    def failed(self) -> bool:
        return self.ended is None or bool(self.ended.failed or self.ended.halted)

    def as_dict(self) -> dict[str, Any]:
        return self.plan.as_dict() | asdict(self.ended or Ended())


def _told(plan: RangePlan, ended: Ended) -> str:
    where = ", ".join(f"{each.topic}/{each.partition}@{each.first}-{each.end}" for each in plan.ranges)
    return f"{ended.events} events of {where}: {ended.acted} acted on, {ended.filtered} filtered, {ended.failed} failed"
