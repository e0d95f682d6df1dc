"""Units over a log in memory: a real lane process, chain and executor, without Spark and without a broker."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self

import pytest

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import DecodeError, Unavailable
from penstock.core.event import Event, Record, RecordLike
from penstock.core.plugin import Action, BatchAction, Decoder, Filter, PipelineContext, Transform
from penstock.engine.pipelines.blueprint import blueprint_of
from penstock.kafka.partition_reader import Batch, Trouble
from penstock.pipeline import built_pipeline, chain
from penstock.pipeline.accounting import check_account
from penstock.pipeline.messages import Assignment, Partition, UnitOutcome, UnitRequest
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import WindowOutcome, WindowRequest, packed, unpacked


@dataclass
class World:
    """What the log holds and what user code does; one at a time."""

    records: dict[Partition, list[Record]] = field(default_factory=dict)
    """By partition, ascending; offsets may have gaps."""
    ends: dict[Partition, int] = field(default_factory=dict)
    act: Callable[[Event], Any] = lambda event: None
    act_batch: Callable[[Sequence[Event]], Sequence[Any]] | None = None
    decode: Callable[[RecordLike], Event | Exception | None] = lambda record: Event(record, record.value(), "t")
    matches: Callable[[Event], bool] = lambda event: True
    transform: Callable[[Event], Event | None] = lambda event: event
    per_read: int = 10_000
    stays_open: bool = False
    """Units wait for more events until their deadline."""
    actions: list[Any] = field(default_factory=list)

    def fill(self, partition: int, offsets: Iterable[int], topic: str = "t") -> None:
        made = [Record(topic, partition, o, b"k%d" % (o % 3), b"%d" % o, None, 1, 1) for o in offsets]
        self.records[topic, partition] = made
        self.ends[topic, partition] = made[-1].offset() + 1 if made else 0


WORLD = World()


def rig_up(patch: pytest.MonkeyPatch) -> World:
    """Have units read and decode from a new world."""
    patch.setattr(built_pipeline, "PartitionReader", LogReader)
    patch.setattr(chain, "decoder_for", WorldDecoder.create)
    WORLD.__init__()  # type: ignore[misc]  # user code of the rig looks at this one object
    return WORLD


class LogReader:
    """Reads `WORLD.records` as a consumer reads partitions."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.trouble = Trouble()
        self._next: dict[Partition, int] = {}
        self._held: set[Partition] = set()

    def place(self, wanted: Any) -> None:
        self._next, self._held = dict(wanted), set()

    def hold(self, partitions: set[Partition]) -> None:
        self._held = set(partitions)

    def read(self, limit: int, timeout: float) -> Batch | None:
        taken: list[RecordLike] = []
        starts, ends, runs = {}, {}, []
        for tp in sorted(set(self._next) - self._held):
            room = min(limit, WORLD.per_read) - len(taken)
            some = [r for r in WORLD.records.get(tp, ()) if r.offset() >= self._next[tp]][:room]
            if some:
                starts[tp], ends[tp] = self._next[tp], some[-1].offset() + 1
                self._next[tp] = ends[tp]
                taken += some
                runs.append((tp, len(some)))
            elif room > 0 and self._next[tp] < WORLD.ends.get(tp, 0):
                # The tail was compacted: the end of the partition says so.
                self._next[tp] = WORLD.ends[tp]
        if taken:
            return Batch(taken, starts, ends, runs)
        SYSTEM.sleep(min(max(timeout, 0.0), 0.002))
        return None

    @property
    def exhausted(self) -> bool:
        """So that units end when there is nothing more to read, not at their deadline."""
        return not WORLD.stays_open and all(map(self.at_end, set(self._next) - self._held))

    def at_end(self, partition: Partition) -> bool:
        return self._next[partition] >= WORLD.ends.get(partition, 0)

    def position(self, partition: Partition) -> int:
        return self._next[partition]

    def close(self) -> None: ...


class WorldDecoder(Decoder):
    @classmethod
    def create(cls, source: Any, ctx: PipelineContext) -> Self:
        return cls()

    def decode(self, records: Sequence[RecordLike]) -> list[Event | Exception | None]:
        return [WORLD.decode(record) for record in records]


class WorldFilter(Filter):
    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls()

    def matches(self, event: Event) -> bool:
        return WORLD.matches(event)


class WorldTransform(Transform):
    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls()

    def transform(self, event: Event) -> Event | None:
        return WORLD.transform(event)


class WorldAction(Action):
    parallel_safe = True

    def __init__(self, ctx: PipelineContext) -> None:
        self.source = ctx.event_source
        WORLD.actions.append(self)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls(ctx)

    def act(self, event: Any) -> Any:
        return WORLD.act(event)

    def close(self) -> None: ...


class WorldAsyncAction(WorldAction):
    async def act(self, event: Any) -> Any:  # type: ignore[override]  # DataHub's contract allows it
        return WORLD.act(event)


class WorldBatchAction(BatchAction):
    parallel_safe = True

    def __init__(self, ctx: PipelineContext) -> None:
        self.source = ctx.event_source
        WORLD.actions.append(self)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls(ctx)

    def act_batch(self, events: Sequence[Event]) -> Sequence[Any]:
        if WORLD.act_batch is not None:
            return WORLD.act_batch(events)
        results: list[Any] = []
        for event in events:
            try:
                results.append(WORLD.act(event))
            except Exception as error:  # noqa: BLE001 - a result like any other
                results.append(error)
        return results

    def close(self) -> None: ...


def spec(action: str = "WorldAction", **options: Any) -> PipelineSpec:
    here = __name__
    return PipelineSpec.model_validate(
        {
            "name": "p",
            "source": {
                "config": {
                    "topics": ["t"],
                    "format": "raw",
                    "connection": {"bootstrap": "127.0.0.1:1"},
                }
            },
            "filters": [{"type": f"{here}:WorldFilter"}],
            "transform": [{"type": f"{here}:WorldTransform"}],
            "action": {"type": f"{here}:{action}", "config": {}},
            "options": {"breaker": {"enabled": False}} | options,
        }
    )


class Rig:
    """One lane process and one pipeline; assignments go on as a driver would plan them."""

    def __init__(self, pipeline: PipelineSpec, partitions: int = 1, clock: Clock = SYSTEM, start: int = 0) -> None:
        self.blueprint = pickle.dumps(blueprint_of(pipeline))
        self.spec, self.clock = pipeline, clock
        self.lane = LaneProcess(clock)
        self.assignments = [Assignment("t", p, 1, start, topic_id="T") for p in range(partitions)]
        self._units = count(1)
        self.problems: list[str] = []

    def request(self, seconds: float, **more: Any) -> UnitRequest:
        given = {"max_records": 1_000} | more
        return UnitRequest(next(self._units), "p", 1, self.blueprint, self.assignments, seconds, **given)

    def window(self, *requests: UnitRequest, seconds: float = 0.2, **more: Any) -> WindowOutcome:
        outcome = self.lane.run(WindowRequest("l", seconds, list(requests), **({"detach": False} | more)))
        # As the driver gets it.
        return unpacked(packed(outcome))

    def unit(self, seconds: float = 0.2, **more: Any) -> UnitOutcome:
        """Run a unit, check its account (L2) and go on where it ended."""
        log = more.pop("in_flight_log", None)
        (outcome,) = self.window(self.request(seconds, **more), seconds=seconds, in_flight_log=log).units
        self.check(outcome)
        self.go_on(outcome)
        return outcome

    def check(self, outcome: UnitOutcome) -> None:
        throws = outcome.halt is not None and outcome.halt.kind == "throw"
        for a, part in zip(self.assignments, outcome.partitions, strict=True):
            failures = [
                f.record.offset() for f in outcome.failures if (f.record.topic(), f.record.partition()) == a.key
            ]
            wrong = check_account(a, part, failures, throws=throws)
            assert wrong is None, f"{wrong}: {part} after {a}"
        counts = outcome.counts
        assert min(counts.read, counts.acted, counts.filtered, counts.failed, counts.unrouted) >= 0
        assert counts.unrouted <= counts.filtered

    def go_on(self, outcome: UnitOutcome) -> None:
        self.assignments = [
            Assignment(*part.key, part.epoch, part.next_offset, part.pending, part.retries, part.topic_id)
            for part in outcome.partitions
        ]

    def begin_elsewhere(self) -> None:
        """The partitions go to another process, which knows only what was committed."""
        self.lane = LaneProcess(self.clock)
        self.assignments = [
            Assignment(*a.key, a.epoch + 1, a.next_offset, a.pending, a.retries, a.topic_id) for a in self.assignments
        ]

    @property
    def action(self) -> Any:
        return WORLD.actions[-1]


def offset_of(event: Any) -> int:
    return int(event.record.offset())


def failing_decode(*bad: int) -> Callable[[RecordLike], Event | Exception]:
    def decode(record: RecordLike) -> Event | Exception:
        return DecodeError("bad bytes") if record.offset() in bad else Event(record, record.value(), "t")

    return decode


def blocked_decode(*away: tuple[int, int]) -> Callable[[RecordLike], Event | Exception]:
    """Records (partition, offset) that an outage concerns."""

    def decode(record: RecordLike) -> Event | Exception:
        if (record.partition(), record.offset()) in away:
            return Unavailable("the registry does not answer for one subject")
        return Event(record, record.value(), "t")

    return decode
