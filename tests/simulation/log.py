"""The log: topics with ids, partitions, records, and all that may happen to them.

Rules modelled: offsets rise; a transaction's marker takes an offset without a record; a reader sees finished
transactions only; compaction removes records and leaves gaps; retention moves the log's start; a topic that is made
anew has another id and offsets from 0; partitions can be added, never removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from penstock.core.errors import Unavailable
from penstock.core.event import Record
from penstock.kafka.admin import Watermarks
from tests.simulation.network import Network
from tests.simulation.scheduler import EPOCH, Process, Scheduler, Task

Nature = Literal["plain", "filtered", "poison", "undecodable", "flaky", "killer", "stuck", "hanging", "slow"]
"""What happens when an action gets the event: it is done; no action gets it; it fails for good; it fails before the
action; it fails a few times; it kills the worker's process; it holds the process; it hangs; it takes seconds."""

CAN_FAIL: frozenset[Nature] = frozenset({"poison", "undecodable", "flaky", "killer", "stuck", "hanging"})
"""Natures of events that may become dead letters."""

Place = tuple[str, int]


@dataclass(slots=True)
class LogRecord:
    record: Record
    nature: Nature
    failures: int = 0
    """Of a flaky one: attempts that fail before one succeeds."""

    @property
    def key(self) -> bytes:
        return self.record.key() or b""


@dataclass(slots=True)
class PartitionLog:
    """One partition."""

    start: int = 0
    end: int = 0
    """Behind the last record or marker."""
    open_transaction: int | None = None
    """First offset of a transaction that has not ended: nothing from there on is visible."""
    records: dict[int, LogRecord] = field(default_factory=dict)
    ends_at: list[tuple[float, int]] = field(default_factory=list)
    """The end after each append, with its time."""
    ever: dict[int, LogRecord] = field(default_factory=dict)
    """Every record that a reader could ever see, those that are gone included."""
    readers: list[Task] = field(default_factory=list)

    @property
    def stable_end(self) -> int:
        return self.end if self.open_transaction is None else self.open_transaction

    def end_at(self, time: float) -> int:
        """Where the end was at a time."""
        found = 0
        for moment, end in self.ends_at:
            if moment > time:
                break
            found = end
        return found

    def next_record(self, offset: int) -> LogRecord | None:
        """The first visible record at or above an offset."""
        for at in range(offset, self.stable_end):
            if (found := self.records.get(at)) is not None:
                return found
        return None


@dataclass(slots=True)
class Topic:
    name: str
    id: str
    partitions: list[PartitionLog]
    made_at: float
    partition_made_at: list[float]


class Log:
    """All topics of the simulated cluster, those that were deleted included."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[str, Topic] = {}
        self.away = False
        """True: no broker answers."""
        self._ids = 0

    def create(self, name: str, partitions: int) -> Topic:
        """Make a topic, or make it anew: another id, nothing in it."""
        self._ids += 1
        now = self._scheduler.now
        topic = Topic(name, f"id{self._ids}", [PartitionLog() for _ in range(partitions)], now, [now] * partitions)
        former = self.topics.get(name)
        self.topics[name] = self.by_id[topic.id] = topic
        if former is not None:
            for part in former.partitions:
                part.records.clear()
                self._notify(part)
        return topic

    def add_partition(self, name: str) -> None:
        topic = self.topics[name]
        topic.partitions.append(PartitionLog())
        topic.partition_made_at.append(self._scheduler.now)

    def append(self, name: str, partition: int, key: bytes, nature: Nature, *, failures: int = 0) -> int:
        part = self.topics[name].partitions[partition]
        offset = part.end
        millis = int((EPOCH + self._scheduler.now) * 1000)
        value = f"{nature} {offset}".encode()
        record = Record(name, partition, offset, key, value, [("n", str(offset).encode())], millis, 1)
        part.records[offset] = part.ever[offset] = LogRecord(record, nature, failures)
        part.end = offset + 1
        self._appended(part)
        return offset

    def begin_transaction(self, name: str, partition: int) -> None:
        part = self.topics[name].partitions[partition]
        if part.open_transaction is None:
            part.open_transaction = part.end

    def end_transaction(self, name: str, partition: int, *, commit: bool) -> None:
        """Write the marker; records of an aborted transaction are never seen."""
        part = self.topics[name].partitions[partition]
        if part.open_transaction is None:
            return
        if not commit:
            for offset in range(part.open_transaction, part.end):
                part.records.pop(offset, None)
                part.ever.pop(offset, None)
        part.open_transaction = None
        part.end += 1
        self._appended(part)

    def compact(self, name: str, partition: int) -> None:
        """Remove older records of keys that came again; the newest record stays."""
        part = self.topics[name].partitions[partition]
        newest: dict[bytes, int] = {}
        for offset in range(part.start, part.stable_end):
            if (found := part.records.get(offset)) is not None:
                newest[found.key] = offset
        for offset in range(part.start, part.stable_end):
            if offset in part.records and newest[part.records[offset].key] != offset:
                del part.records[offset]

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        part = self.topics[name].partitions[partition]
        for gone in range(part.start, min(offset, part.end)):
            part.records.pop(gone, None)
        part.start = max(part.start, min(offset, part.stable_end))

    def wait(self, parts: Iterable[PartitionLog], timeout: float) -> None:
        """Block until something is appended to one of the partitions."""
        task = self._scheduler.current
        assert task is not None
        waiting = list(parts)
        for part in waiting:
            part.readers.append(task)
        self._scheduler.block(timeout)
        for part in waiting:
            if task in part.readers:
                part.readers.remove(task)

    def interrupt(self) -> None:
        """Every reader looks again: the brokers went away, or came back."""
        for topic in self.topics.values():
            for part in topic.partitions:
                self._notify(part)

    def _appended(self, part: PartitionLog) -> None:
        part.ends_at.append((self._scheduler.now, part.stable_end))
        self._notify(part)

    def _notify(self, part: PartitionLog) -> None:
        readers, part.readers = part.readers, []
        for task in readers:
            self._scheduler.wake(task)


class ClusterFake:
    """`ClusterView` of one instance: questions to the cluster, which fail while no broker answers."""

    def __init__(self, log: Log, network: Network, process: Process) -> None:
        self._log, self._network, self._process = log, network, process

    def topics(self, timeout: float | None = None) -> dict[str, int]:
        self._ask(timeout)
        return {name: len(topic.partitions) for name, topic in self._log.topics.items()}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        self._ask()
        return {name: self._log.topics[name].id for name in names if name in self._log.topics}

    def find_watermarks(self, places: Iterable[Place], *, committed_only: bool = True) -> Watermarks:
        return Watermarks(self.watermarks(places, committed_only=committed_only))

    def watermarks(self, places: Iterable[Place], *, committed_only: bool = True) -> dict[Place, tuple[int, int]]:
        self._ask()
        return {
            (name, p): (part.start, part.stable_end if committed_only else part.end)
            for name, p in places
            if name in self._log.topics and p < len(self._log.topics[name].partitions)
            for part in [self._log.topics[name].partitions[p]]
        }

    def offsets_for_times(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        self._ask()
        found: dict[Place, int | None] = {}
        for (name, p), millis in times.items():
            if name in self._log.topics and p < len(self._log.topics[name].partitions):
                records = self._log.topics[name].partitions[p].records
                later = [at for at in sorted(records) if records[at].record.timestamp()[1] >= millis]
                found[name, p] = later[0] if later else None
        return found

    def _ask(self, timeout: float | None = None) -> None:
        self._network.call(self._process)
        if self._log.away or self._process in self._network.cut:
            self._network.wait_out(min(timeout or 10.0, 10.0))
            raise Unavailable("the cluster does not answer")
