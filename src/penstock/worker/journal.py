"""The progress journal: a small shared file in which a lane's worker notes what is done, for the driver to read if it
dies.

Per unit and partition it holds the next offset below which everything is finished, and the first offset that is being
acted on. It is memory, not disk: a worker's death loses nothing of it.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from penstock.worker.protocol import Assignment, Partition

_SLOT = struct.Struct("<QIIqq")
"""Unit (0: free), index of the partition in the unit's request, padding, done, in flight (-1: nothing)."""
_PAIR = struct.Struct("<qq")
_PAIR_AT = 16
_SLOTS = 4_096


@dataclass(frozen=True, slots=True)
class Progress:
    """What a dead worker had done of one partition."""

    done: int
    """Everything below is finished."""
    in_flight: int | None
    """The first offset of what was being acted on."""


class Journal:
    """The worker's side. Each unit writes to slots of its own."""

    def __init__(self, path: str) -> None:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "r+b") as file:
            file.truncate(_SLOTS * _SLOT.size)
            self._memory = mmap.mmap(file.fileno(), 0)
        self._free = list(range(_SLOTS - 1, -1, -1))
        self._lock = threading.Lock()

    def open(self, unit: int, assignments: list[Assignment]) -> Pages:
        """Slots for a unit; partitions beyond the last free slot are not noted, and are repeated after a death."""
        places: dict[Partition, int] = {}
        with self._lock:
            for index, a in enumerate(assignments[: len(self._free)]):
                if a.holes:
                    # What is done of it is not one number: it is repeated from its commit.
                    continue
                slot = self._free.pop()
                places[a.key] = slot * _SLOT.size
                _SLOT.pack_into(self._memory, places[a.key], unit, index, 0, a.frontier, -1)
        return Pages(self._memory, places)

    def close(self, pages: Pages) -> None:
        """The unit's outcome is on its way: its slots are free."""
        with self._lock:
            for at in pages.places.values():
                _SLOT.pack_into(self._memory, at, 0, 0, 0, -1, -1)
                self._free.append(at // _SLOT.size)


class Pages:
    """One unit's slots."""

    __slots__ = ("_memory", "places")

    def __init__(self, memory: mmap.mmap, places: dict[Partition, int]) -> None:
        self._memory = memory
        self.places = places

    def done(self, ends: dict[Partition, int]) -> None:
        """Everything below these offsets is finished, and nothing is in flight."""
        for partition, end in ends.items():
            at = self.places.get(partition)
            if at is not None:
                _PAIR.pack_into(self._memory, at + _PAIR_AT, end, -1)

    def acting_on(self, partition: Partition, done: int, offset: int) -> None:
        """What lies below `done` is finished, and `offset` is begun."""
        at = self.places.get(partition)
        if at is not None:
            _PAIR.pack_into(self._memory, at + _PAIR_AT, done, offset)


def read(path: str) -> dict[int, dict[int, Progress]]:
    """What a worker left behind: by unit, then by the partition's index in its request."""
    found: dict[int, dict[int, Progress]] = {}
    try:
        raw = Path(path).read_bytes()
    except OSError:
        return found
    for unit, index, _, done, in_flight in _SLOT.iter_unpack(raw[: len(raw) // _SLOT.size * _SLOT.size]):
        if unit and done >= 0:
            found.setdefault(unit, {})[index] = Progress(done, in_flight if in_flight >= 0 else None)
    return found
