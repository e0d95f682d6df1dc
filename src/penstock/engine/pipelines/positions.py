"""Where a newly assigned partition begins: its commit, the store's mirror of it, or the start policy; and gaps on the
way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from penstock.config.spec import PipelineSpec
from penstock.core.clock import SYSTEM, Clock
from penstock.core.commit_metadata import OpenRetry, decode
from penstock.kafka.admin import Watermarks
from penstock.pipeline.messages import Partition
from penstock.store.offsets import FirstStart


class Cluster(Protocol):
    """The questions to the cluster that finding a position takes; each may raise `Unavailable`."""

    def topics(self, timeout: float | None = None) -> Mapping[str, int]: ...
    def topic_ids(self, names: Sequence[str]) -> Mapping[str, str]: ...
    def find_watermarks(self, places: Sequence[Partition], *, committed_only: bool = True) -> Watermarks: ...
    def offsets_for_times(self, times: Mapping[Partition, int]) -> Mapping[Partition, int | None]: ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a commit, or its mirror in the store, says about a partition."""

    offset: int
    metadata: str
    topic_id: str | None = None
    """Of the topic that the offset is for, where it is known besides the metadata."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin, and what to report about it."""

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
    topic_id: str = ""
    log_start: int = 0
    end: int = 0


Start = int | str
"""`earliest`, `latest` or epoch milliseconds."""
Committed = Callable[[list[Partition]], Mapping[Partition, Remembered]]
"""Looks up what is committed; may raise `Unavailable`."""
FirstStarts = Callable[[Mapping[str, int], int], Mapping[str, FirstStart]]
"""Records, once, which topics (by id, with their number of partitions) are there at a pipeline's first start, and when
that was; returns what was recorded first."""


class PositionFinder:
    """Finds positions of one pipeline's partitions by asking cluster, group and store."""

    def __init__(
        self,
        spec: PipelineSpec,
        cluster: Cluster,
        *,
        committed: Committed,
        mirrored: Callable[[], Mapping[Partition, Remembered]],
        first_starts: FirstStarts,
        clock: Clock = SYSTEM,
    ) -> None:
        self._source = spec.source.config
        self._cluster, self._committed, self._mirrored = cluster, committed, mirrored
        self._first_starts, self._clock = first_starts, clock
        self.missing: dict[Partition, str] = {}
        """Partitions of the last call whose leaders did not answer, and why."""

    def find(self, wanted: Sequence[Partition]) -> dict[Partition, Position]:
        """Positions of these partitions; those that cannot be found now are left out, with the reason in `missing`."""
        ids = self._cluster.topic_ids(sorted({topic for topic, _ in wanted}))
        marks = self._cluster.find_watermarks(list(wanted))
        bounds, self.missing = marks.found, dict(marks.unavailable)
        present = [tp for tp in wanted if tp in bounds and tp[0] in ids]
        committed = self._committed(present)
        mirrored = self._mirrored() if len(committed) < len(present) else {}
        new = [tp for tp in present if tp not in committed and tp not in mirrored]
        starts = self._start_offsets(new, ids, bounds, is_first=not mirrored) if new else {}
        found = {}
        for tp in present:
            topic_id, (low, high) = ids[tp[0]], bounds[tp]
            locate = partial(
                find,
                tp,
                topic_id=topic_id,
                committed=committed.get(tp),
                mirrored=mirrored.get(tp),
                policy_offset=starts.get(tp, low),
            )
            position = locate(bounds=(low, high))
            if position.blocked is not None:
                # A commit of a consumer that reads uncommitted records may lie beyond the last stable offset.
                last = self._cluster.find_watermarks([tp], committed_only=False).found.get(tp, (low, high))[1]
                position = locate(bounds=(low, max(last, high)))
            found[tp] = replace(position, topic_id=topic_id, log_start=low, end=high)
        return found

    def _start_offsets(
        self,
        new: list[Partition],
        ids: Mapping[str, str],
        bounds: Mapping[Partition, tuple[int, int]],
        *,
        is_first: bool,
    ) -> dict[Partition, int]:
        """The start policy applies to partitions that were there at the first start; those that appeared later
        begin at earliest. All instances agree because the first start is recorded once."""
        now = self._clock.now_ms()
        recorded = self._first_starts(self._present_topics(is_first=is_first), now)
        start = self._source.start_position
        offsets = {tp: bounds[tp][0] for tp in new}
        original = [tp for tp in new if (first := recorded.get(ids[tp[0]])) is not None and tp[1] < first.partitions]
        if start == "earliest" or not original:
            return offsets
        if start == "latest":
            times = {tp: recorded[ids[tp[0]]].at_ms for tp in original}
            # This very call was the first start: the ends of the logs are exact, times of records are not.
            offsets |= {tp: bounds[tp][1] for tp, at in times.items() if at == now}
            times = {tp: at for tp, at in times.items() if at != now}
        else:
            times = dict.fromkeys(original, int(start))
        found = self._cluster.offsets_for_times(times) if times else {}
        # A time behind the last record means: what comes from now on.
        return offsets | {tp: at if (at := found.get(tp)) is not None else bounds[tp][1] for tp in times}

    def _present_topics(self, *, is_first: bool) -> dict[str, int]:
        """Ids of all subscribed topics with the partitions to which the start policy applies: none of them where the
        group has committed before."""
        counts = self._cluster.topics()
        names = self._source.subscribed(counts)
        ids = self._cluster.topic_ids(names)
        every = [(name, partition) for name in names for partition in range(counts[name])]
        is_first = is_first and not self._committed(every)
        return {ids[name]: counts[name] if is_first else 0 for name in names if name in ids}


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
        text = f"{name}: the group has forgotten its offset; resuming at {mirrored.offset}, as mirrored in the store"
        return replace(found, commit=True, note=found.note or ("mirror", text))
    return Position(policy_offset, commit=True)


def _resume(name: str, topic_id: str, remembered: Remembered, bounds: tuple[int, int]) -> Position:
    low, high = bounds
    known = decode(remembered.offset, remembered.metadata)
    former = known.topic_id or remembered.topic_id
    if former is not None and former != topic_id:
        was = f"id {former} is now {topic_id}"
        note = ("recreated", f"{name}: the topic was re-created ({was}); beginning at {low}")
        return Position(low, commit=True, note=note)
    if remembered.offset < low:
        kept = tuple(offset for offset in known.pending if offset >= low)
        text = f"{name}: offsets {remembered.offset} to {low - 1} are no longer in the log; resuming at {low}"
        gap = (remembered.offset, low)
        return Position(max(low, known.next_offset), kept, known.retries, commit=True, note=("gap", text), gap=gap)
    if remembered.offset > high:
        where = f"{name}: the committed offset {remembered.offset} lies beyond the end of the log ({high})"
        return Position(remembered.offset, blocked=f"{where}; reset the offsets to go on")
    damage: tuple[str, str] | None = None
    if known.damaged is not None:
        # I1: which events above the offset are finished is unknown, so all of them are repeated.
        damage = (
            "metadata",
            f"{name}: the commit's metadata cannot be used ({known.damaged}); repeating from {known.next_offset}",
        )
    return Position(known.next_offset, known.pending, known.retries, note=damage)
