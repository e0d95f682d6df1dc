"""Bounded readers: a replay's unit reads through one of these, so that everything after reading is as in any unit."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from typing import Protocol

from penstock.core.clock import SYSTEM, Clock
from penstock.core.event import Record, RecordLike
from penstock.kafka.partition_reader import Batch, PartitionReader, Trouble
from penstock.pipeline.messages import Bounds, Partition


class Readable(Protocol):
    """What a unit reads from."""

    @property
    def trouble(self) -> Trouble: ...
    @property
    def exhausted(self) -> bool: ...
    def place(self, wanted: Mapping[Partition, int]) -> None: ...
    def hold(self, partitions: set[Partition]) -> None: ...
    def read(self, limit: int, timeout: float) -> Batch | None: ...
    def at_end(self, partition: Partition) -> bool: ...
    def position(self, partition: Partition) -> int: ...
    def close(self) -> None: ...


def bounded(reader: Readable, bounds: Bounds, clock: Clock = SYSTEM) -> Readable:
    """The reader of a replay's unit, made from the pipeline's own; the next unit gives it new bounds."""
    if isinstance(reader, (LogReader, LetterReader)):
        reader.bound(bounds)
        return reader
    if bounds.records is None and isinstance(reader, PartitionReader):
        return LogReader(reader, bounds)
    reader.close()
    return LetterReader(bounds, clock)


class LogReader:
    """Reads ranges of the log; what lies beyond their ends is dropped."""

    def __init__(self, reader: PartitionReader, bounds: Bounds) -> None:
        self._reader = reader
        self._ends = bounds.ends
        self._open: set[Partition] = set()
        self._held: set[Partition] = set()

    def bound(self, bounds: Bounds) -> None:
        self._ends = bounds.ends

    @property
    def trouble(self) -> Trouble:
        return self._reader.trouble

    def place(self, wanted: Mapping[Partition, int]) -> None:
        # A range whose end was reached has nothing to be fetched for it.
        begin = {tp: offset for tp, offset in wanted.items() if offset < self._ends[tp]}
        self._open, self._held = set(begin), set()
        self._reader.place(begin)

    def hold(self, partitions: set[Partition]) -> None:
        self._held = partitions
        self._reader.hold(partitions | {tp for tp in self._open if self._is_past(tp)})

    def read(self, limit: int, timeout: float) -> Batch | None:
        batch = self._reader.read(limit, timeout)
        if batch is None or all(end <= self._ends[tp] for tp, end in batch.ends.items()):
            return batch
        batch.keep(lambda record: record.offset() < self._ends[record.topic(), record.partition()])
        batch.ends = {tp: min(end, self._ends[tp]) for tp, end in batch.ends.items()}
        self.hold(self._held)
        return batch if batch.records else None

    def _is_past(self, partition: Partition) -> bool:
        # Markers of transactions and compacted records leave gaps: a range is over when the reader is behind it.
        return partition not in self._open or self._reader.position(partition) >= self._ends[partition]

    def at_end(self, partition: Partition) -> bool:
        return self._is_past(partition) or self._reader.at_end(partition)

    def position(self, partition: Partition) -> int:
        return self._ends[partition] if self._is_past(partition) else self._reader.position(partition)

    @property
    def exhausted(self) -> bool:
        """True: nothing more will come."""
        return all(map(self._is_past, self._open))

    def close(self) -> None:
        self._reader.close()


class LetterReader:
    """Gives the records that came with the unit as a log would: in order, each partition from where it is placed."""

    def __init__(self, bounds: Bounds, clock: Clock = SYSTEM) -> None:
        self.trouble = Trouble()
        self._clock = clock
        self._records: dict[Partition, list[Record]] = {}
        self._next: dict[Partition, int] = {}
        self._held: set[Partition] = set()
        self.bound(bounds)

    def bound(self, bounds: Bounds) -> None:
        self._records = {tp: [] for tp in bounds.ends}
        for record in bounds.records or ():
            self._records[record.topic(), record.partition()].append(record)

    def place(self, wanted: Mapping[Partition, int]) -> None:
        self._next = dict(wanted)
        self._held = set()

    def hold(self, partitions: set[Partition]) -> None:
        self._held = partitions

    def read(self, limit: int, timeout: float) -> Batch | None:
        taken: list[RecordLike] = []
        starts: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        for partition in self._next.keys() - self._held:
            some = self._left(partition)[: limit - len(taken)]
            if some:
                starts[partition] = self._next[partition]
                self._next[partition] = ends[partition] = some[-1].offset() + 1
                taken += some
        if taken:
            return Batch(taken, starts, ends)
        # Nothing to give now: the unit waits for a retry that becomes due.
        self._clock.sleep(max(0.0, timeout))
        return None

    def _left(self, partition: Partition) -> list[Record]:
        records = self._records[partition]
        return records[bisect.bisect_left(records, self._next[partition], key=Record.offset) :]

    def at_end(self, partition: Partition) -> bool:
        return not self._left(partition)

    def position(self, partition: Partition) -> int:
        return self._next[partition]

    @property
    def exhausted(self) -> bool:
        """True: all that came with the unit was given."""
        return all(map(self.at_end, self._next))

    def close(self) -> None:
        """Nothing is open."""
