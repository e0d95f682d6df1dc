"""Events that wait for a retry, in line: the one that failed first, then later ones that must not overtake it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable

from penstock.pipeline.chain import Item
from penstock.pipeline.messages import Partition


class RetryQueue:
    """One line per strand. Not thread-safe."""

    def __init__(self, strand: Callable[[Item], Hashable]) -> None:
        self._strand = strand
        self._lines: dict[Hashable, deque[Item]] = {}
        self._due: dict[Hashable, float] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def park(self, item: Item, due: float) -> None:
        """The item has failed: its strand waits until then."""
        name = self._strand(item)
        self._lines.setdefault(name, deque()).appendleft(item)
        self._due[name] = due

    def behind(self, item: Item) -> bool:
        """Put the item in line if its strand waits."""
        line = self._lines.get(self._strand(item)) if self._lines else None
        if line is None:
            return False
        line.append(item)
        return True

    @property
    def next_due(self) -> float | None:
        return min(self._due.values(), default=None)

    def take_due(self, now: float) -> list[Item]:
        """A line whose time has come; empty when there is none."""
        for name, due in self._due.items():
            if due <= now:
                del self._due[name]
                return list(self._lines.pop(name))
        return []

    @property
    def offsets(self) -> dict[Partition, list[int]]:
        return offsets_of(item for line in self._lines.values() for item in line)

    def items(self) -> list[Item]:
        return [item for line in self._lines.values() for item in line]

    def clear(self) -> None:
        self._lines.clear()
        self._due.clear()


def offsets_of(items: Iterable[Item]) -> dict[Partition, list[int]]:
    """By partition, in no order."""
    found: dict[Partition, list[int]] = defaultdict(list)
    for item in items:
        record = item.record
        found[record.topic(), record.partition()].append(record.offset())
    return found
