"""What a unit says at its end: per partition the next_offset, what is open below it, and what waits for a retry."""

from __future__ import annotations

import time

from penstock.core.commit_metadata import fits
from penstock.core.event import RecordLike
from penstock.pipeline.built_pipeline import BuiltPipeline
from penstock.pipeline.chain import Item
from penstock.pipeline.executors.executor import ActionExecutor, partition_of
from penstock.pipeline.messages import (
    Assignment,
    Halt,
    Partition,
    PartitionOutcome,
    Retry,
    UnitOutcome,
    UnitRequest,
)
from penstock.pipeline.retry import Coordinates

_HOLES_AT_MOST = 10_000
_AHEAD = 2_000
"""So many events of a partition are read while its first one waits for a retry within the unit."""
_FEW = 100
"""So many pending always fit into a commit."""


def holds(pipeline: BuiltPipeline, share: int) -> set[Partition]:
    """Partitions to read no further from: their order forbids it, what is open could not be remembered, or so many of
    their events wait that there would be no room for other partitions'."""
    acting = pipeline.acting
    waiting = acting.waiting
    full = {tp for tp, offsets in waiting.items() if len(offsets) >= share}
    if acting.tail_only:
        # A short wait is not worth a stop of the fetching, which takes a while to begin again.
        end = acting.deadline.at
        return full | {
            tp for tp, offsets in waiting.items() if len(offsets) >= _AHEAD or _due(acting, (*tp, min(offsets))) >= end
        }
    return full | {
        tp for tp, offsets in waiting.items() if len(offsets) > _FEW and not _fit(pipeline, tp, sorted(offsets))
    }


def _due(acting: ActionExecutor, place: Coordinates) -> float:
    tries = acting.tries.get(place)
    return tries.due if tries else 0.0


def _fit(pipeline: BuiltPipeline, partition: Partition, pending: list[int]) -> bool:
    return len(pending) < _HOLES_AT_MOST and fits(pending[0], pipeline.next_offset(partition), pending)


def report(
    outcome: UnitOutcome,
    request: UnitRequest,
    pipeline: BuiltPipeline,
    unfinished: list[Item],
    unprepared: list[RecordLike],
) -> None:
    """Fill in the outcome's partitions, and leave what is unfinished for the next unit."""
    rest: dict[Partition, list[Item]] = {}
    for item in unfinished:
        rest.setdefault(partition_of(item), []).append(item)
    unread: dict[Partition, set[int]] = {}
    for record in unprepared:
        unread.setdefault((record.topic(), record.partition()), set()).add(record.offset())
    trouble = pipeline.reader.trouble
    for a in request.assignments:
        unbegun = {item.record.offset() for item in rest.get(a.key, ())} | unread.get(a.key, set())
        part = _outcome(a, pipeline, unbegun)
        part.cursor_gap = pipeline.acting.cursor_gaps.get(a.key)
        part.out_of_range, part.gone = a.key in trouble.out_of_range, a.key in trouble.gone
        ahead = bool(unbegun) or not pipeline.reader.at_end(a.key)
        outcome.more = outcome.more or (ahead and part.blocked_for is None)
        outcome.partitions.append(part)
    if trouble.error and not outcome.counts.read and outcome.halt is None:
        outcome.halt = Halt("outage", "broker", trouble.error)
    # What was not prepared is in nobody's memory: the next unit must go back to it.
    pipeline.leave([part for part in outcome.partitions if part.key not in unread], rest)
    pipeline.acting.reported(outcome.partitions)


def _outcome(a: Assignment, pipeline: BuiltPipeline, unbegun: set[int]) -> PartitionOutcome:
    acting, now = pipeline.acting, time.monotonic()
    pending = pipeline.unread_pending(a.key) | {place[2] for place in list(acting.deferred) if place[:2] == a.key}
    next_offset = pipeline.next_offset(a.key)
    if unbegun and acting.tail_only and not pipeline.is_skipping(a.key):
        next_offset = min(unbegun)
        pending = {hole for hole in pending if hole < next_offset}
    else:
        pending |= unbegun
    if (cursor := acting.cursor(a.key)) is not None:
        next_offset, pending = cursor, set()
    return PartitionOutcome(
        *a.key,
        a.epoch,
        next_offset,
        tuple(sorted(pending)),
        _retries(acting, a.key, now),
        blocked_for=_blocked_for(acting, a.key, unbegun, now),
        at_end=pipeline.reader.at_end(a.key) and not unbegun,
    )


def _retries(acting: ActionExecutor, partition: Partition, now: float) -> tuple[Retry, ...]:
    return tuple(
        Retry(place[2], tries.attempts, tries.first_failed_at, max(0.0, tries.due - now))
        for place, tries in acting.tries.items()
        if place[:2] == partition
    )


def _blocked_for(acting: ActionExecutor, partition: Partition, unbegun: set[int], now: float) -> float | None:
    """Where order forbids to go on, the partition waits for its first unfinished event, in nobody's slot."""
    first = acting.tries.get((*partition, min(unbegun))) if unbegun and acting.tail_only else None
    return max(0.0, first.due - now) if first else None
