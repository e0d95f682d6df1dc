"""The progress journal: a small shared file in which a lane's worker notes what is done and what it is at, for the
driver to read if it dies.

Per unit and partition there is a slot: everything below `done` is finished, and the events from `flight` up to `until`
are being worked on. Units that act on several events at once keep a log instead: which events were begun, which are
done. It is memory, not disk: a worker's death loses nothing of it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.event import RecordLike
from penstock.pipeline.messages import Assignment, Partition

_SLOT = 5
"""Cells of a slot: unit (0: free), index of the partition in the unit's request, done, flight, until."""
_NOTHING, _NEXT = -1, -2
"""In the place of an offset in flight: nothing is; the one at `done` is."""
_SLOTS = 4_096
_LOGS = 64
_LOG = 1 << 16
"""Cells of a log: unit (0: free), number of entries, then two cells for each entry: what and where, offset."""
_ENTRIES = (_LOG - 2) // 2
_LOGS_AT = _SLOT * _SLOTS
_PID_AT = _LOGS_AT + _LOGS * _LOG
_SPARE_AT = _PID_AT + 1
"""Where a partition without a slot is noted, for nobody to read."""
_CELLS = _SPARE_AT + _SLOT

_BEGUN, _DONE, _ENDED = 0, 1, 2
"""What a log entry says; `ended` is neither done nor in flight: it failed, waits or is deferred, as only the worker's
memory knew."""
_WHAT = 1 << 32


@dataclass(slots=True)
class Progress:
    """What a dead worker had done of one partition."""

    done: int | None = None
    """Everything below is finished."""
    open: set[int] = field(default_factory=set)
    """Offsets below that are not: they failed, and nobody else knows."""
    finished: set[int] = field(default_factory=set)
    """Offsets that are finished besides."""
    suspects: set[int] = field(default_factory=set)
    """Offsets that were being worked on, one of which may have been the death of it."""


class Journal:
    """The worker's side. Each unit writes to slots, or a log, of its own."""

    def __init__(self, path: str) -> None:
        # Another process may still write to the journal that is there: it keeps its file, and we get one of our own.
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, before(path))  # noqa: PTH105 - a name, not a Path
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b") as file:
            file.truncate(_CELLS * 8)
            self._cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._cells[_PID_AT] = os.getpid()
        self._free = list(range(_SLOTS - 1, -1, -1))
        self._free_logs = list(range(_LOGS - 1, -1, -1))
        self._lock = threading.Lock()

    def open(self, unit: int, assignments: list[Assignment]) -> Pages:
        """Slots for a unit; partitions beyond the last free slot are not noted, and are repeated after a death."""
        places: dict[Partition, int] = {}
        with self._lock:
            for index, a in enumerate(assignments[: len(self._free)]):
                at = self._free.pop() * _SLOT
                places[a.key] = at
                self._cells[at + 1], self._cells[at + 2], self._cells[at + 3] = index, a.next_offset, _NOTHING
                self._cells[at] = unit
            log = self._free_logs.pop() if self._free_logs else None
            if log is not None:
                at = _LOGS_AT + log * _LOG
                self._cells[at + 1] = 0
                self._cells[at] = unit
        return Pages(self._cells, places, None if log is None else _LOGS_AT + log * _LOG)

    def close(self, pages: Pages) -> None:
        """The unit's outcome is on its way: its slots are free."""
        with self._lock:
            for at in pages.places.values():
                self._cells[at] = 0
                self._free.append(at // _SLOT)
            if pages.log is not None:
                self._cells[pages.log] = 0
                self._free_logs.append((pages.log - _LOGS_AT) // _LOG)


class Pages:
    """One unit's slots and log."""

    __slots__ = ("_at", "_cells", "_index", "_one_topic", "_partition", "log", "places")

    def __init__(self, cells: memoryview, places: dict[Partition, int], log: int | None) -> None:
        self._cells = cells
        self.places = places
        self.log = log
        self._index = {partition: index for index, partition in enumerate(places)}
        self._one_topic = len({topic for topic, _ in places}) == 1
        self._partition = _NOTHING
        """The partition, of the one topic, that is being noted; its slot is at `_at`."""
        self._at = _SPARE_AT

    def done(self, ends: dict[Partition, int]) -> None:
        """Everything below these offsets is finished, and nothing is in flight."""
        self._leave()
        for partition, end in ends.items():
            if (at := self.places.get(partition)) is not None:
                self._cells[at + 3] = _NOTHING
                self._cells[at + 2] = end

    def working(self, firsts: dict[Partition, int], ends: dict[Partition, int]) -> None:
        """The events from the firsts up to the ends are worked on together."""
        for partition, first in firsts.items():
            if (at := self.places.get(partition)) is not None:
                self._cells[at + 4] = ends[partition]
                self._cells[at + 3] = first

    def idle(self) -> None:
        """Nothing is in flight."""
        self._leave()
        for at in self.places.values():
            self._cells[at + 3] = _NOTHING

    def acting_on(self, record: RecordLike) -> None:
        """This one event is begun, and what lies below it in its partition is finished."""
        # Once per event of the fastest pipelines: a single number is written where the partition is the same.
        if record.partition() != self._partition:
            self._enter_partition(record)
        self._cells[self._at + 2] = record.offset()

    def _enter_partition(self, record: RecordLike) -> None:
        self._leave()
        self._at = self.places.get((record.topic(), record.partition()), _SPARE_AT)
        self._cells[self._at + 2] = record.offset()
        self._cells[self._at + 3] = _NEXT
        if self._one_topic:
            self._partition = record.partition()

    def _leave(self) -> None:
        """The event acted on last is behind us: done, or named in the log."""
        if self._at != _SPARE_AT:
            self._cells[self._at + 3] = _NOTHING
            self._cells[self._at + 2] += 1
        self._at, self._partition = _SPARE_AT, _NOTHING

    def begun(self, record: RecordLike) -> None:
        self._enter(_BEGUN, record)

    def ended(self, record: RecordLike, *, done: bool) -> None:
        self._enter(_DONE if done else _ENDED, record)

    def _enter(self, what: int, record: RecordLike) -> None:
        """Add to the log; the caller sees to it that this is done by one thread at a time."""
        index = self._index.get((record.topic(), record.partition()))
        if self.log is None or index is None:
            return
        count = self._cells[self.log + 1]
        if count < _ENTRIES:
            at = self.log + 2 + 2 * count
            self._cells[at], self._cells[at + 1] = what * _WHAT + index, record.offset()
            # Counted last: a death in between loses the entry, never shows half of it.
            self._cells[self.log + 1] = count + 1

    @property
    def full(self) -> bool:
        """The log takes no more: the unit should end, for the next one gets a new log."""
        return self.log is not None and self._cells[self.log + 1] >= _ENTRIES - 1_000


def before(path: str) -> str:
    """Where the journal of the lane's process before this one is."""
    return f"{path}.before"


def writer(path: str) -> int | None:
    """The process that writes this journal, or wrote it last."""
    try:
        with Path(path).open("rb") as file:
            file.seek(_PID_AT * 8)
            return int.from_bytes(file.read(8), sys.byteorder) or None
    except OSError:
        return None


@dataclass(slots=True, frozen=True)
class InFlight:
    """Offsets [first, end) of the partition with this index in the unit's request, which are being worked on."""

    index: int
    first: int
    end: int


def read(path: str) -> dict[int, list[InFlight]]:
    """What a worker was working on when it died, by unit."""
    return {
        unit: [InFlight(index, offset, offset + 1) for index, part in parts.items() for offset in sorted(part.suspects)]
        for unit, parts in read_progress(path).items()
    }


def request_stop(path: str, units: Collection[int]) -> None:
    """Ask units to begin no further act."""


def read_progress(path: str) -> dict[int, dict[int, Progress]]:
    """What a worker left behind: by unit, then by the partition's index in its request."""
    try:
        raw = Path(path).read_bytes()
    except OSError:
        return {}
    if len(raw) < _CELLS * 8:
        return {}
    cells = memoryview(raw).cast("q")
    found: dict[int, dict[int, Progress]] = defaultdict(lambda: defaultdict(Progress))
    for at in range(0, _LOGS_AT, _SLOT):
        unit, index, done, flight, until = cells[at : at + _SLOT]
        if unit:
            progress = found[unit][index]
            progress.done = done
            if flight == _NEXT:
                progress.suspects.add(done)
            elif flight >= 0:
                progress.suspects.update(range(flight, max(until, flight + 1)))
    for at in range(_LOGS_AT, _PID_AT, _LOG):
        if unit := cells[at]:
            _read_log(cells[at + 1 : at + _LOG], found[unit])
    return {unit: dict(parts) for unit, parts in found.items()}


def _read_log(log: memoryview, found: dict[int, Progress]) -> None:
    for n in range(log[0]):
        what, index = divmod(log[1 + 2 * n], _WHAT)
        offset, progress = log[2 + 2 * n], found[index]
        if what == _BEGUN:
            progress.suspects.add(offset)
        else:
            progress.suspects.discard(offset)
        if what == _DONE:
            progress.finished.add(offset)
            progress.open.discard(offset)
        elif what == _ENDED:
            progress.open.add(offset)
