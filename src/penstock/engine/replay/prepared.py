"""Replaying segments that are known beforehand: ranges of the log, or events read from a file. Failures become dead
letters, as in any run; the group's position is not touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.config.spec import PipelineSpec
from penstock.core.dead_letter import Stage
from penstock.core.event import Record
from penstock.core.threads import THREADS, Threads
from penstock.engine.pipelines import crashed_events
from penstock.engine.pipelines.dead_letter_writer import DeadLetterWriter
from penstock.engine.replay.work import ReplaySegment, ReplayWork
from penstock.kafka.client import KafkaClientConfig
from penstock.pipeline.messages import FailedEvent, Partition

_PIECES_PER_LANE = 4
_LEAST_PIECE = 10_000
"""Offsets: smaller pieces cost more in windows than they gain by being spread."""


class PreparedWork(ReplayWork):
    """Segments of one pipeline. Lanes share it."""

    def __init__(
        self,
        segments: Sequence[ReplaySegment],
        spec: PipelineSpec,
        settling: DeadLetterWriter,
        *,
        by: str,
        lanes: int,
        threads: Threads = THREADS,
    ) -> None:
        self._spec, self._settling, self._by, self._lanes = spec, settling, by, lanes
        ids = {(segment.topic, segment.partition): segment.topic_id for segment in segments}
        self._topic_id = ids.__getitem__
        self._lock = threads.lock()
        self._waiting = list(segments)

    def take(self) -> list[ReplaySegment] | None:
        with self._lock:
            if not self._waiting:
                return None
            share = -(-len(self._waiting) // self._lanes)
            taken: dict[Partition, ReplaySegment] = {}
            for segment in self._waiting:
                if len(taken) < share:
                    taken.setdefault(segment.key, segment)
            chosen = {id(segment) for segment in taken.values()}
            self._waiting = [segment for segment in self._waiting if id(segment) not in chosen]
            return list(taken.values())

    def settle(
        self,
        done: list[tuple[ReplaySegment, set[int]]],  # noqa: ARG002 - only failures are recorded
        failures: list[tuple[ReplaySegment, FailedEvent]],
    ) -> None:
        if failures:
            self._settling.settle([failed for _, failed in failures], self._topic_id, self._by)

    def give_back(self, segments: Iterable[ReplaySegment]) -> None:
        """No other lane waits for them."""

    def failure_of(self, segment: ReplaySegment, offset: int, stage: Stage, reason: str) -> FailedEvent | None:
        if segment.records is not None:
            record = segment.record_from(offset)
            return crashed_events.failure_for(record, stage=stage, reason=reason) if record is not None else None
        client = KafkaClientConfig.of(self._spec.source.config.connection)
        failed = crashed_events.failure_of(client, self._spec.group, segment.key, offset, stage=stage, reason=reason)
        return failed if failed is not None and failed.record.offset() < segment.end else None


def segments_of_ranges(
    ranges: Mapping[Partition, tuple[int, int]], spec: PipelineSpec, *, topic_ids: Mapping[str, str], lanes: int
) -> list[ReplaySegment]:
    """The ranges, or their parts where no order has to be kept between them."""
    size = max((end - first for first, end in ranges.values()), default=1)
    if spec.ordering == "none" and lanes > 1:
        total = sum(end - first for first, end in ranges.values())
        size = max(_LEAST_PIECE, -(-total // (lanes * _PIECES_PER_LANE)))
    return [
        ReplaySegment(topic, partition, topic_ids.get(topic, ""), at, end=min(at + size, end))
        for (topic, partition), (first, end) in ranges.items()
        for at in range(first, end, size)
    ]


def segments_of_records(records: Iterable[Record], topic_id: str) -> list[ReplaySegment]:
    """One for each partition; an event that comes more than once is taken once."""
    found: dict[Partition, dict[int, Record]] = {}
    for record in records:
        found.setdefault((record.topic(), record.partition()), {}).setdefault(record.offset(), record)
    segments = []
    for (topic, partition), mine in found.items():
        ordered = dict(sorted(mine.items()))
        first, last = next(iter(ordered)), next(reversed(ordered))
        segments.append(ReplaySegment(topic, partition, topic_id, first, end=last + 1, records=ordered))
    return segments
