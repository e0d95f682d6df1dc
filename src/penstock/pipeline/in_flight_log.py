"""The in-flight log: a memory-mapped file per lane process that names the events it is working on right now.

L1: nothing in it says that an event is done. After the death of the process everything that it had not returned is
repeated; the log only names the suspects, which are then run alone. It is memory, not disk: a process that is killed
loses nothing of it.

A slot is four cells: the unit, the partition's index in the unit's request, and the range of offsets being worked on.
The driver has cells of its own in the file: units that must begin no further act.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.event import RecordLike
from penstock.pipeline.messages import Assignment, Partition

_PID_AT = 0
_STOP_COUNT_AT = 1
"""Grows with every request to stop, so that looking for one costs a single read."""
_STOPS_AT = 2
_STOPS = 1_022
"""Units that may be asked to stop before the lane process has seen the first of them."""
_SLOTS_AT = _STOPS_AT + _STOPS
_SLOT = 4
_SLOTS = 16_384
"""L7: enough for hundreds of units with concurrency. A unit that gets fewer slots than it asks for works all the same;
what it does not name is repeated after a death like everything else."""
_CELLS = _SLOTS_AT + _SLOT * _SLOTS
_NOTHING = -1
"""In the place of the first offset: the slot's owner works on nothing."""
_ONE = -1
"""In the place of the end: the event at the first offset alone, so that the next event costs one write."""

_request_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class InFlight:
    """Events that a process was working on: one of them may have been the reason for its death."""

    index: int
    """The partition's place in the unit's request."""
    first: int
    end: int
    """Offsets in [first, end)."""


class InFlightLog:
    """The lane process's side. Units write to slots of their own, each slot by one thread at a time."""

    def __init__(self, path: str) -> None:
        """Raises OSError where the file system is full: a sparse file would end the process at its first write."""
        # Another process may still write to the file that is there: it keeps that file, and this one gets its own.
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, before(path))  # noqa: PTH105 - a name, not a Path
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, _CELLS * 8)
            self._cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._cells[_PID_AT] = os.getpid()
        self._free = list(range(_SLOTS - 1, -1, -1))
        self._lock = threading.Lock()
        self._stops_seen = 0

    def open(self, unit: int, assignments: Sequence[Assignment], concurrency: int = 1) -> InFlightSlots:
        """Slots for a unit: one per act at the same time, then one per partition for batches, as far as they go."""
        with self._lock:
            acts = self._take(unit, concurrency)
            ranges = self._take(unit, len(assignments))
        return InFlightSlots(self._cells, [a.key for a in assignments], acts, ranges)

    def _take(self, unit: int, wanted: int) -> list[int]:
        taken = [_SLOTS_AT + _SLOT * self._free.pop() for _ in range(min(wanted, len(self._free)))]
        for at in taken:
            self._cells[at + 2] = _NOTHING
            self._cells[at] = unit
        return taken

    def close(self, slots: InFlightSlots) -> None:
        """The unit's outcome was returned: its slots are free."""
        with self._lock:
            for at in slots.owned:
                self._cells[at] = 0
                self._free.append((at - _SLOTS_AT) // _SLOT)

    def stop_requests(self) -> list[int]:
        """Units that the driver has asked to stop since the last call."""
        count = self._cells[_STOP_COUNT_AT]
        if count == self._stops_seen:
            return []
        self._stops_seen = count
        found = []
        for at in range(_STOPS_AT, _STOPS_AT + _STOPS):
            if unit := self._cells[at]:
                found.append(unit)
                self._cells[at] = 0
        return found


class InFlightSlots:
    """The slots of one unit. Without any (no log, or a full one) nothing is named and the unit works all the same."""

    __slots__ = ("_act", "_cells", "_free", "_index", "_ranges", "_used", "owned")

    def __init__(
        self, cells: memoryview, partitions: Sequence[Partition], acts: Sequence[int], ranges: Sequence[int]
    ) -> None:
        self._cells = cells
        self._index = {partition: index for index, partition in enumerate(partitions)}
        self.owned = (*acts, *ranges)
        self._act = acts[0] if acts else None
        self._free = list(acts)
        self._ranges = list(ranges)
        self._used: list[int] = []

    @classmethod
    def none(cls) -> InFlightSlots:
        """Slots of a unit without a log."""
        return cls(_NOWHERE, (), (), ())

    def act_cell(self, partition: Partition) -> tuple[memoryview, int]:
        """The cell into which a serial executor writes the offset of each event of this partition before acting."""
        index = self._index.get(partition)
        if self._act is None or index is None:
            return _NOWHERE, 2
        cells, at = self._cells, self._act
        cells[at + 2] = _NOTHING
        cells[at + 1], cells[at + 3] = index, _ONE
        return cells, at + 2

    def begin(self, record: RecordLike) -> int | None:
        """Name one of several events acted on at once. The caller holds the executor's lock."""
        index = self._index.get((record.topic(), record.partition()))
        if not self._free or index is None:
            return None
        at = self._free.pop()
        self._cells[at + 1], self._cells[at + 3] = index, _ONE
        self._cells[at + 2] = record.offset()
        return at

    def end(self, slot: int | None) -> None:
        """What `begin` named is no longer worked on. The caller holds the executor's lock."""
        if slot is not None:
            self._cells[slot + 2] = _NOTHING
            self._free.append(slot)

    def begin_ranges(self, ranges: Mapping[Partition, tuple[int, int]]) -> None:
        """Name a batch that is prepared or acted on as a whole: per partition the offsets [first, end)."""
        cells = self._cells
        for at, (partition, (first, end)) in zip(self._ranges, ranges.items(), strict=False):
            cells[at + 2] = _NOTHING
            cells[at + 1], cells[at + 3] = self._index[partition], max(end, first + 1)
            cells[at + 2] = first
            self._used.append(at)

    def end_ranges(self) -> None:
        for at in self._used:
            self._cells[at + 2] = _NOTHING
        self._used.clear()


_NOWHERE = memoryview(bytearray(_SLOT * 8)).cast("q")


def before(path: str) -> str:
    """Where the log of the lane's process before this one is."""
    return f"{path}.before"


def writer(path: str) -> int | None:
    """The process that writes this log, or wrote it last."""
    try:
        with Path(path).open("rb") as file:
            file.seek(_PID_AT * 8)
            return int.from_bytes(file.read(8), sys.byteorder) or None
    except OSError:
        return None


def read(path: str) -> dict[int, list[InFlight]]:
    """What a process was working on, by unit; empty where there is no log, or a damaged one."""
    try:
        raw = Path(path).read_bytes()
    except OSError:
        return {}
    if len(raw) < _CELLS * 8:
        return {}
    cells = memoryview(raw[: _CELLS * 8]).cast("q")
    found: dict[int, list[InFlight]] = {}
    for at in range(_SLOTS_AT, _CELLS, _SLOT):
        unit, index, first, end = cells[at : at + _SLOT]
        if unit and first >= 0:
            found.setdefault(unit, []).append(InFlight(index, first, first + 1 if end == _ONE else end))
    return found


def request_stop(path: str, units: set[int]) -> bool:
    """F16: ask the process that writes this log to begin no further act of these units; does not wait for it.

    Returns False where that cannot be asked: there is no log, or too many requests are unread.
    """
    try:
        with _request_lock, Path(path).open("r+b") as file:
            if os.fstat(file.fileno()).st_size < _CELLS * 8:
                return False
            with mmap.mmap(file.fileno(), 0) as memory, memoryview(memory) as view, view.cast("q") as cells:
                free = [at for at in range(_STOPS_AT, _STOPS_AT + _STOPS) if not cells[at]]
                for at, unit in zip(free, sorted(units), strict=False):
                    cells[at] = unit
                cells[_STOP_COUNT_AT] += 1
                return len(free) >= len(units)
    except OSError:
        return False
