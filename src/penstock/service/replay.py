"""Replays: dead letters, or a range of a topic, through a pipeline's current spec, on a Spark of their own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.config.spec import BreakerSpec, PipelineSpec
from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError
from penstock.engine.pipelines.blueprint import blueprint_of
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.replay.dead_letters import LetterWork, Marks
from penstock.engine.replay.prepared import PreparedWork, segments_of_ranges, segments_of_records
from penstock.engine.replay.replay import Replay, lane_count
from penstock.engine.replay.work import ReplayHalted, ReplaySegment
from penstock.engine.spark.context import Spark
from penstock.kafka.admin import ClusterView
from penstock.kafka.client import KafkaClientConfig
from penstock.service.exactly_once import refuse_repeating
from penstock.service.failed_events import records_of
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
    seconds: float = 0.0
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


def plan_letters(
    store: Store,
    which: Which,
    files: Sequence[Path],
    edit: Edit | None = None,
    *,
    running: Mapping[str, PipelineSpec] | None = None,
) -> LetterPlan:
    """Refuses what cannot be replayed; nothing is changed. `running` are specs at hand, which are as they run now."""
    if edit is not None and (isinstance(which, DeadLetterFilter) or len(set(which)) != 1):
        raise ConfigError("an edited value is for one letter", hint="give its id, and no other")
    if isinstance(which, DeadLetterFilter):
        which = replace(which, until=which.until or SYSTEM.now_ms() + _LATECOMERS)
    counts = store.dead_letters.claimable(which)
    names = sorted({count.pipeline for count in counts})
    at_hand = running or {}
    specs = {name: at_hand.get(name) or current_spec(name, files, store) for name in names}
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
    by: str = field(default_factory=own_name)
    """What it claims letters by."""

    @property
    def total(self) -> int:
        return self.plan.letters

    @property
    def done(self) -> int:
        return sum(marks.replayed + marks.failed for marks in list(self.marks.values()))

    def run(self, spark: Spark, stop: threading.Event) -> None:
        """One pipeline after the other; what a stop leaves undone is released."""
        for name, spec in self.plan.specs.items():
            if stop.is_set():
                return
            work = LetterWork(
                self.store.dead_letters,
                self.plan.whiches[name],
                spec,
                by=self.by,
                max_replays=self.max_replays,
                lanes=lane_count(spec, spark.cores),
                stop=stop,
                say=self._say,
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
    def halted(self) -> str | None:
        """Why the replay of a pipeline ended by itself before its end."""
        return next((ended.halted for ended in list(self.ended.values()) if ended.halted), None)

    def figures(self) -> dict[str, dict[str, Any]]:
        """By pipeline, as far as each has come."""
        figures: dict[str, dict[str, Any]] = {name: {} for name in self.plan.specs}
        for name, marks in list(self.marks.items()):
            ended = self.ended.get(name)
            figures[name] = (asdict(ended) if ended else {}) | asdict(marks)
        return figures

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
    began = SYSTEM.monotonic()
    try:
        replay.run(stop)
    except ReplayHalted as error:
        halted = str(error)
    counts, seconds = replay.counts, round(SYSTEM.monotonic() - began, 3)
    return Ended(counts.read, counts.acted, counts.filtered, counts.failed, counts.retried, seconds, halted)


# -- ranges and files ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangePlan:
    """What a replay of a range is going to do."""

    spec: PipelineSpec
    ranges: list[Range]
    topic_ids: dict[str, str]

    @property
    def total(self) -> int:
        return sum(each.offsets for each in self.ranges)

    def stretches(self, lanes: int) -> list[ReplaySegment]:
        ranges = {(each.topic, each.partition): (each.first, each.end) for each in self.ranges}
        return segments_of_ranges(ranges, self.spec, topic_ids=self.topic_ids, lanes=lanes)

    def as_dict(self) -> dict[str, Any]:
        ranges = [each.as_dict() for each in self.ranges]
        return {"pipeline": self.spec.name, "offsets": self.total, "ranges": ranges}

    def __str__(self) -> str:
        return ", ".join(f"{each.topic}/{each.partition} from {each.first} to {each.end}" for each in self.ranges)


def plan_range(
    spec: PipelineSpec, *, first: str, end: str, topic: str | None = None, partition: int | None = None
) -> RangePlan:
    """Where the range lies in each partition; refuses one that is not in the log. Nothing is changed."""
    if spec.source.is_foreign:
        raise ConfigError(
            f"{spec.name} has a source of its own, which has no log to read a range from",
            received=spec.source.type,
            allowed=["kafka"],
            hint="`penstock dead-letters replay` works for it",
        )
    refuse_repeating(spec)
    begins, ends = point("--from", first), point("--to", end)
    cluster = ClusterView(KafkaClientConfig.of(spec.source.config.connection))
    ranges = find_ranges(cluster, spec, begins, ends, topic=topic, partition=partition)
    return RangePlan(spec, ranges, cluster.topic_ids({each.topic for each in ranges}))


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What a replay of DataHub's `failed_events.log` is going to do."""

    spec: PipelineSpec
    file: Path
    pieces: list[ReplaySegment]

    @property
    def total(self) -> int:
        return sum(len(stretch.records or ()) for stretch in self.pieces)

    def stretches(self, lanes: int) -> list[ReplaySegment]:  # noqa: ARG002 - a file is cut by its partitions
        return self.pieces

    def as_dict(self) -> dict[str, Any]:
        counts = [
            LetterCount(self.spec.name, s.topic, s.partition, len(s.records or ()))._asdict() for s in self.pieces
        ]
        return {"letters": self.total, "partitions": counts}

    def __str__(self) -> str:
        return str(self.file)


def plan_file(spec: PipelineSpec, file: Path) -> FilePlan:
    """Reads the file to its end; a line that is no event, or a format that a line cannot be turned into, is refused."""
    records = list(records_of(spec, file))
    if not records:
        raise ConfigError(f"{file} has no events in it", received=str(file))
    return FilePlan(spec, file, segments_of_records(records, f"file/{file.name}"))


@dataclass(slots=True)
class PreparedReplay:
    """A replay of a range or of a file that can be watched from another thread."""

    plan: RangePlan | FilePlan
    store: Store
    rate: float | None = None
    note: str | None = None
    """What it waits for."""
    ended: Ended | None = None
    _replay: Replay | None = None

    @property
    def total(self) -> int:
        return self.plan.total

    @property
    def done(self) -> int:
        return self._replay.counts.read if self._replay is not None else 0

    def run(self, spark: Spark, stop: threading.Event) -> None:
        spec, by = self.plan.spec, own_name()
        lanes = lane_count(spec, spark.cores)
        settling = DeadLetterWriter(blueprint_of(spec), self.store)
        try:
            work = PreparedWork(self.plan.stretches(lanes), spec, settling, by=by, lanes=lanes)
            self._replay = Replay(spark, spec, work, rate=self.rate, say=self._say)
            self.ended = ended = _run(self._replay, stop)
        finally:
            settling.close()
        told = f"{ended.events} events: {ended.acted} acted on, {ended.filtered} filtered, {ended.failed} failed"
        self.store.pipelines.note(spec.name, by, "replay", f"{self.plan}: {told}", asdict(ended))

    def _say(self, note: str | None) -> None:
        self.note = note

    @property
    def failed(self) -> bool:
        return self.ended is None or bool(self.ended.failed or self.ended.halted)

    def as_dict(self) -> dict[str, Any]:
        return self.plan.as_dict() | asdict(self.ended or Ended())
