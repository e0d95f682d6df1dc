"""Stretches: the parts of partitions that a replay works through, each in order and to its end."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from penstock.core.event import Record
from penstock.engine.pipelines.partitions import PartitionState

_WINDOW = 5_000
"""Records that travel with one window."""


@dataclass(slots=True)
class ReplaySegment(PartitionState):
    """A part of one partition: a range of the log, or records that are given."""

    end: int = 0
    """The part is over at this offset."""
    records: dict[int, Record] | None = None
    """Instead of the log, by offset, ascending."""

    @property
    def finished(self) -> bool:
        return self.killer is None and (not self.open if self.records is not None else self.position >= self.end)

    @property
    def open(self) -> set[int]:
        """Offsets of given records that are not finished."""
        pending = set(self.pending)
        return {offset for offset in self.records or () if offset >= self.next_offset or offset in pending}

    def given(self) -> list[Record]:
        """The records that a window gets: of many, the first ones."""
        unfinished = self.open
        left = (record for offset, record in (self.records or {}).items() if offset in unfinished)
        return list(itertools.islice(left, _WINDOW))

    def record_from(self, offset: int) -> Record | None:
        """The first given record at or behind this offset."""
        return next((record for at, record in (self.records or {}).items() if at >= offset), None)

    def finish(self, offset: int) -> None:
        if self.records is None:
            super(ReplaySegment, self).finish(offset)
            return
        # Given records may lie far apart: only where there is one, something can be open.
        left = self.open - {offset}
        self.next_offset = max(offset + 1, self.next_offset)
        self.pending = tuple(sorted(each for each in left if each < self.next_offset))
        self.waiting = tuple(waiting for waiting in self.waiting if self.is_open(waiting.offset))
