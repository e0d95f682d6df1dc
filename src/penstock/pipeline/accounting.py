"""L2: per partition, what a unit had to do with and what became of it; and the check of the sum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from penstock.core.event import RecordLike
from penstock.kafka.partition_reader import Runs
from penstock.pipeline.items import Item
from penstock.pipeline.messages import Account, Assignment, Partition, PartitionOutcome


class PartitionAccount:
    """What a unit has read of one partition, and how far that is finished.

    Records are counted as read and dropped when everything fed so far is finished. While something waits, their offsets
    are kept instead: where order is by partition the next offset is set back to the first unfinished event, and what
    lies behind it belongs to the next unit.
    """

    __slots__ = (
        "assignment",
        "began_at",
        "blocked_at",
        "dropped",
        "filtered",
        "offsets",
        "read",
        "reread",
        "seen",
        "taken_over",
    )

    def __init__(self, assignment: Assignment, began_at: int, reread: Iterable[int] = (), taken_over: int = 0) -> None:
        self.assignment = assignment
        self.began_at = began_at
        self.taken_over = taken_over
        self.reread = frozenset(reread)
        """Pending offsets of the assignment that have to be read again."""
        self.seen: set[int] = set()
        """Those of them that were."""
        self.read = 0
        self.filtered = 0
        self.offsets: list[int] = []
        """Read at or above `began_at`, not counted yet."""
        self.dropped: list[int] = []
        """Dropped by a step before the action, not counted yet."""
        self.blocked_at: int | None = None
        """The first event that waits for an outage: nothing from here on was taken."""

    def wants(self, offset: int) -> bool:
        """Whether a record is to be worked on: finished ones between pending offsets are not."""
        return offset >= self.began_at or offset in self.reread

    def take(self, records: Sequence[RecordLike], items: Sequence[Item], *, finished: bool) -> None:
        """A batch of this partition was fed. `finished`: so is everything of it, and of what was fed before."""
        if self.reread:
            self.seen.update(self.reread.intersection(record.offset() for record in records))
        if finished and not self.seen:
            self.read += len(records)
            self.filtered += len(records) - len(items)
        else:
            began_at = self.began_at
            self.offsets += [offset for record in records if (offset := record.offset()) >= began_at]
            if len(items) != len(records):
                kept = {item.record.offset() for item in items}
                self.dropped += [offset for record in records if (offset := record.offset()) not in kept]
        if finished:
            self.settle()

    def settle(self) -> None:
        """Everything that was fed is finished: count it."""
        if self.offsets or self.dropped:
            self.read += len(self.offsets)
            self.filtered += len(self.dropped)
            self.offsets, self.dropped = [], []

    def position(self, reader_position: int) -> int:
        return reader_position if self.blocked_at is None else min(reader_position, self.blocked_at)

    def unread(self, position: int) -> set[int]:
        """Pending offsets that the reader has not come to."""
        return {offset for offset in self.reread if offset >= position}

    def close(self, next_offset: int, position: int) -> Account:
        """The counts of an outcome that ends at `next_offset`; what lies behind stays for `ahead`."""
        self.read += sum(offset < next_offset for offset in self.offsets)
        self.filtered += sum(offset < next_offset for offset in self.dropped)
        self.offsets = [offset for offset in self.offsets if offset >= next_offset]
        self.dropped = [offset for offset in self.dropped if offset >= next_offset]
        missing = sum(offset < position and offset not in self.seen for offset in self.reread)
        return Account(self.began_at, self.taken_over, self.read, filtered=self.filtered, missing=missing)


def partition_runs(items: Sequence[Item]) -> Runs:
    """The runs of items that are not all that was read."""
    records = [item.record for item in items]
    found = groupby([(record.topic(), record.partition()) for record in records])
    return [(partition, len(list(group))) for partition, group in found]


def by_partition(
    records: Sequence[RecordLike], items: Sequence[Item], runs: Runs
) -> dict[Partition, tuple[list[RecordLike], list[Item]]]:
    """A batch over several partitions, taken apart; `runs` are those of the items."""
    found: dict[Partition, tuple[list[RecordLike], list[Item]]] = {}
    if len(records) == len(items):
        at = 0
        for partition, count in runs:
            mine = found.setdefault(partition, ([], []))
            mine[0].extend(records[at : at + count])
            mine[1].extend(items[at : at + count])
            at += count
        return found
    for record in records:
        found.setdefault((record.topic(), record.partition()), ([], []))[0].append(record)
    for item in items:
        found[item.record.topic(), item.record.partition()][1].append(item)
    return found


def check_account(  # noqa: PLR0911 - one reason after the other
    assignment: Assignment,
    part: PartitionOutcome,
    failures: Collection[int],
    *,
    has_cursor: bool = False,
    throws: bool = False,
) -> str | None:
    """Why the outcome of a partition does not add up; None when it does.

    `failures` are the offsets of the outcome's failures in this partition; `has_cursor`: the target decides where
    reading begins; `throws`: the outcome has a `throw` halt, which leaves the failing event unfinished.
    """
    account, pending = part.account, part.pending
    if (part.epoch, part.topic_id) != (assignment.epoch, assignment.topic_id):
        return f"it is about epoch {part.epoch} of {part.topic_id}, not {assignment.epoch} of {assignment.topic_id}"
    if account.began_at != assignment.next_offset and not has_cursor:
        return f"it began at {account.began_at}, not at the assigned {assignment.next_offset}"
    if part.next_offset < account.began_at:
        return f"its next offset {part.next_offset} is below {account.began_at}, where it began"
    if account.taken_over != len(assignment.pending) and not (has_cursor and account.taken_over == 0):
        return f"it took over {account.taken_over} pending events of {len(assignment.pending)}"
    if any(a >= b for a, b in zip(pending, (*pending[1:], part.next_offset), strict=False)):
        return "its pending offsets are not ascending and below the next offset"
    counts = (account.read, account.acted, account.filtered, account.failed, account.missing)
    if min(counts) < 0:
        return f"it has a negative count: {account}"
    ended = account.acted + account.filtered + account.failed + account.missing
    if account.taken_over + account.read != ended + len(pending):
        return (
            f"{account.taken_over} taken over + {account.read} read is not {account.acted} acted + {account.filtered} "
            f"filtered + {account.failed} failed + {account.missing} missing + {len(pending)} pending"
        )
    open_ = set(pending)
    unfinished = [offset for offset in failures if offset in open_ or offset >= part.next_offset]
    if unfinished and not throws:
        return f"the failed event at {unfinished[0]} counts as unfinished"
    return None
