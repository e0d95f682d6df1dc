"""Where each owned partition stands, and how that is written into a commit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from penstock.kafka.member import Commit
from penstock.worker.protocol import Assignment, Partition, PartitionOutcome

_METADATA_LIMIT = 3_000
"""Bytes of commit metadata that we use; brokers refuse 4,096."""
_VERSION = "p1"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class Owned:
    """One partition this instance owns."""

    topic: str
    partition: int
    epoch: int
    topic_id: str
    frontier: int
    holes: tuple[int, ...] = ()
    committed: int | None = None
    """The offset last committed; None: nothing is, and nothing will be (stateless)."""
    unit: int | None = None
    """The unit that works on it now."""
    at_end: bool = False
    doubtful: bool = False
    """True: the position is to be found anew once the unit that works on it has ended."""
    fenced: bool = False
    """True: being revoked; no further unit."""

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def position(self) -> int:
        """The lowest unfinished offset: what may be committed."""
        return min(self.holes, default=self.frontier)

    def assignment(self) -> Assignment:
        return Assignment(self.topic, self.partition, self.epoch, self.frontier, self.holes)

    def advance(self, outcome: PartitionOutcome) -> None:
        self.frontier, self.holes, self.at_end = outcome.frontier, outcome.holes, outcome.at_end

    def commit(self) -> Commit:
        """I1: everything below the committed offset is finished; finished ranges above it are remembered beside it."""
        metadata = encode(self.topic_id, self.position, self.frontier, self.holes)
        if len(metadata) > _METADATA_LIMIT:
            metadata = encode(self.topic_id, self.position, self.position, ())
        return Commit(self.position, metadata)


def encode(topic_id: str, position: int, frontier: int, holes: tuple[int, ...]) -> str:
    """`p1;topic id;gap.length.gap.length…`: finished ranges above the position, numbers in base 36."""
    numbers: list[str] = []
    last = position
    for start, end in _finished(frontier, holes):
        numbers += [_base36(start - last), _base36(end - start)]
        last = end
    return f"{_VERSION};{topic_id};{'.'.join(numbers)}"


def decode(position: int, metadata: str) -> tuple[str | None, int, tuple[int, ...]]:
    """Topic id (None where the commit is not Penstock's), frontier and holes of a commit."""
    parts = metadata.split(";")
    if len(parts) != 3 or parts[0] != _VERSION:
        return None, position, ()
    try:
        numbers = [int(n, 36) for n in parts[2].split(".") if n]
    except ValueError:
        return None, position, ()
    holes: list[int] = []
    at = position
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        holes.extend(range(at, at + gap))
        at += gap + length
    return parts[1], at, tuple(holes)


def _finished(frontier: int, holes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Ranges between the holes, up to the frontier."""
    ranges = []
    for hole, following in pairwise((*holes, frontier)):
        if following > hole + 1:
            ranges.append((hole + 1, following))
    return ranges


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
        if not number:
            return digits
