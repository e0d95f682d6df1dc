"""Replaying stretches that are known beforehand: ranges of the log, or events read from a file. Failures become dead
letters, as in any run; the group's position is not touched."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Stage
from penstock.core.event import Record
from penstock.engine.pipelines import crashed_events as autopsy
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.replay.segment import ReplaySegment
from penstock.engine.replay.work import Work
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import FailedEvent, Partition

_PIECES_PER_LANE = 4
_LEAST_PIECE = 10_000
"""Offsets: smaller pieces cost more in windows than they gain by being spread."""


class PreparedWork(Work):
    """Stretches of one pipeline. Lanes share it."""

    def __init__(
        self, stretches: Sequence[ReplaySegment], spec: PipelineSpec, settling: DeadLetterWriter, *, by: str, lanes: int
    ) -> None:
        self._spec, self._settling, self._by, self._lanes = spec, settling, by, lanes
        self._topic_ids = {stretch.topic: stretch.topic_id for stretch in stretches}
        self._lock = threading.Lock()
        self._waiting = list(stretches)

    def take(self) -> list[ReplaySegment] | None:
        with self._lock:
            if not self._waiting:
                return None
            share = -(-len(self._waiting) // self._lanes)
            taken: dict[Partition, ReplaySegment] = {}
            for stretch in self._waiting:
                if len(taken) < share:
                    taken.setdefault(stretch.key, stretch)
            chosen = {id(stretch) for stretch in taken.values()}
            self._waiting = [stretch for stretch in self._waiting if id(stretch) not in chosen]
            return list(taken.values())

    def settle(
        self,
        done: list[tuple[ReplaySegment, set[int]]],  # noqa: ARG002 - nobody asks which of these are finished
        failures: list[tuple[ReplaySegment, FailedEvent]],
    ) -> None:
        if failures:
            self._settling.settle([failed for _, failed in failures], self._topic_ids, self._by)

    def give_back(self, stretches: Iterable[ReplaySegment]) -> None:
        """Nobody else waits for them."""

    def failure_of(self, stretch: ReplaySegment, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        if stretch.records is not None:
            record = stretch.record_from(offset)
            return autopsy.failure_for(record, stage=stage, reason=reason) if record is not None else None
        client = KafkaClientConfig.of(self._spec.source.config.connection)
        failed = autopsy.failure_of(client, self._spec.group, stretch.key, offset, stage=stage, reason=reason)
        return failed if failed is not None and failed.record.offset() < stretch.end else None


def stretches_of_ranges(
    ranges: Mapping[Partition, tuple[int, int]], spec: PipelineSpec, *, topic_ids: Mapping[str, str], lanes: int
) -> list[ReplaySegment]:
    """The ranges, or their parts where no order has to be kept between them."""
    size = max((end - first for first, end in ranges.values()), default=1)
    if spec.ordering == "none" and lanes > 1:
        total = sum(end - first for first, end in ranges.values())
        size = max(_LEAST_PIECE, -(-total // (lanes * _PIECES_PER_LANE)))
    return [
        ReplaySegment(topic, partition, 0, topic_ids.get(topic, ""), at, end=min(at + size, end))
        for (topic, partition), (first, end) in ranges.items()
        for at in range(first, end, size)
    ]


def stretches_of_records(records: Iterable[Record], topic_id: str) -> list[ReplaySegment]:
    """One for each partition; an event that comes more than once is taken once."""
    found: dict[Partition, dict[int, Record]] = {}
    for record in records:
        found.setdefault((record.topic(), record.partition()), {}).setdefault(record.offset(), record)
    stretches = []
    for (topic, partition), mine in found.items():
        ordered = dict(sorted(mine.items()))
        first, last = next(iter(ordered)), next(reversed(ordered))
        stretches.append(ReplaySegment(topic, partition, 0, topic_id, first, end=last + 1, records=ordered))
    return stretches
