"""Where a newly assigned partition begins: its commit, the store's mirror of it, or the start policy; and gaps on the
way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.core.commit_metadata import OpenRetry, decode
from penstock.pipeline.messages import Partition


class Cluster(Protocol):
    """The questions to the cluster that finding a position takes."""

    def watermarks(self, places: list[Partition]) -> Mapping[Partition, tuple[int, int]]: ...
    def offsets_for_times(self, times: Mapping[Partition, int]) -> Mapping[Partition, int | None]: ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a commit, or its mirror in the store, says about a partition."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin, and what to tell about it."""

    next_offset: int
    pending: tuple[int, ...] = ()
    retries: tuple[OpenRetry, ...] = ()
    commit: bool = False
    """True: the position is new and is committed before the first unit."""
    note: tuple[str, str] | None = None
    """Kind and text for the pipeline's history."""
    blocked: str | None = None
    """Why nothing may be read."""
    gap: tuple[int, int] | None = None


Start = int | str
"""`earliest`, `latest` or epoch milliseconds."""


def find(
    partition: Partition,
    *,
    topic_id: str,
    committed: Remembered | None,
    mirrored: Remembered | None,
    bounds: tuple[int, int],
    policy_offset: int,
) -> Position:
    """The position of one partition. `policy_offset` is where the start policy would begin."""
    name = f"{partition[0]}/{partition[1]}"
    if committed is not None:
        return _resume(name, topic_id, committed, bounds)
    if mirrored is not None:
        # The broker drops a group's offsets with the topic; the store still knows which topic they were for.
        found = _resume(name, topic_id, mirrored, bounds)
        text = f"{name}: the group has forgotten its offset; going on at {mirrored.offset}, as the store remembers"
        return replace(found, commit=True, note=found.note or ("mirror", text))
    return Position(policy_offset, commit=True)


def _resume(name: str, topic_id: str, remembered: Remembered, bounds: tuple[int, int]) -> Position:
    low, high = bounds
    known = decode(remembered.offset, remembered.metadata)
    if known.topic_id is not None and known.topic_id != topic_id:
        was = f"id {known.topic_id} is now {topic_id}"
        note = ("recreated", f"{name}: the topic was made anew ({was}); beginning at {low}")
        return Position(low, commit=True, note=note)
    if remembered.offset < low:
        kept = tuple(h for h in known.pending if h >= low)
        text = f"{name}: offsets {remembered.offset} to {low - 1} are no longer in the log; going on at {low}"
        gap = (remembered.offset, low)
        return Position(max(low, known.next_offset), kept, known.retries, commit=True, note=("gap", text), gap=gap)
    if remembered.offset > high:
        where = f"{name}: the committed offset {remembered.offset} lies beyond the end of the log ({high})"
        return Position(remembered.offset, blocked=f"{where}; reset the offsets to go on")
    if known.damaged is not None:
        # I1: which events above the offset are finished is unknown, so all of them are repeated.
        text = f"{name}: the commit's metadata cannot be used ({known.damaged}); repeating from {known.next_offset}"
        return Position(known.next_offset, note=("metadata", text))
    return Position(known.next_offset, known.pending, known.retries)


def policy_offsets(cluster: Cluster, start: Start, bounds: Mapping[Partition, tuple[int, int]]) -> dict[Partition, int]:
    """Where the start policy begins, per partition."""
    if start == "earliest":
        return {tp: low for tp, (low, _) in bounds.items()}
    if isinstance(start, int):
        found = cluster.offsets_for_times(dict.fromkeys(bounds, start))
        # A time after the last record means: what comes from now on.
        return {tp: offset if (offset := found.get(tp)) is not None else high for tp, (_, high) in bounds.items()}
    return {tp: high for tp, (_, high) in bounds.items()}
