"""Ranges of a topic, from what a person writes: offsets, times, `earliest`, `latest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from penstock.config.spec import PipelineSpec
from penstock.core.clock import format_time, parse_time
from penstock.core.errors import ConfigError
from penstock.kafka.admin import ClusterView, Place
from penstock.service.moments import LAST

_FIRST_MILLIS = 100_000_000_000
"""Plain numbers from here on are epoch milliseconds (March 1973); no partition has had so many records."""
_WANTED = "an offset, a time like 2026-01-01T00:00:00Z, epoch milliseconds, earliest or latest"


@dataclass(frozen=True, slots=True)
class Point:
    """Where a range begins or ends, before it is known what that means for a partition."""

    kind: Literal["offset", "time", "earliest", "latest"]
    at: int = 0

    def __str__(self) -> str:
        if self.kind == "offset":
            return str(self.at)
        return format_time(self.at) if self.kind == "time" else self.kind


@dataclass(frozen=True, slots=True)
class Range:
    """A part of one partition: from `first` up to, not including, `end`."""

    topic: str
    partition: int
    first: int
    end: int
    log: tuple[int, int]
    """First offset and end of the partition."""

    @property
    def offsets(self) -> int:
        """Events at most: compacted ones and markers of transactions are counted too."""
        return self.end - self.first

    def as_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.first,
            "to": self.end,
            "offsets": self.offsets,
            "log": {"first": self.log[0], "end": self.log[1]},
        }


def point(option: str, text: str) -> Point:
    """What a person wrote for `--from` or `--to`."""
    written = text.strip()
    if written.lower() in ("earliest", "latest"):
        return Point("earliest" if written.lower() == "earliest" else "latest")
    if written.isdecimal():
        number = int(written)
        if number >= LAST:
            raise ConfigError(f"{option}: a time before the year 10000 is wanted", received=text, allowed=_WANTED)
        return Point("time" if number >= _FIRST_MILLIS else "offset", number)
    try:
        return Point("time", parse_time(written))
    except ValueError:
        raise ConfigError(f"{option} is no place in a topic", received=text, allowed=_WANTED) from None


def find_ranges(
    cluster: ClusterView, spec: PipelineSpec, first: Point, end: Point, *, topic: str | None, partition: int | None
) -> list[Range]:
    """The range of each partition that has one; an error where it is not within the log."""
    name = _topic(spec, topic)
    count = cluster.existing([name])[name]
    if partition is not None and partition >= count:
        raise ConfigError(f"topic {name} has no partition {partition}", received=partition, allowed=f"0 to {count - 1}")
    if first.kind == end.kind and first.at > end.at:
        raise ConfigError("the range ends before it begins", received=f"{first} to {end}")
    places = [(name, p) for p in range(count) if partition is None or p == partition]
    log = cluster.watermarks(places)
    begins = _resolved(cluster, first, log)
    ends = _resolved(cluster, end, log)
    _check_within(first, end, log)
    ranges = [Range(*place, begins[place], ends[place], log[place]) for place in log if begins[place] < ends[place]]
    if not ranges:
        raise ConfigError(
            f"topic {name} has no events from {first} to {end}", received=f"{first} to {end}", allowed=_bounds(log)
        )
    return ranges


def _topic(spec: PipelineSpec, topic: str | None) -> str:
    source = spec.source.config
    if topic is None:
        if len(source.subscription) != 1 or source.topic_pattern:
            raise ConfigError(
                f"pipeline {spec.name!r} reads more than one topic", hint="choose one with --topic", allowed=_read(spec)
            )
        return source.subscription[0]
    if not source.subscribed([topic]):
        raise ConfigError(f"pipeline {spec.name!r} does not read topic {topic!r}", received=topic, allowed=_read(spec))
    return topic


def _read(spec: PipelineSpec) -> list[str]:
    source = spec.source.config
    return [source.topic_pattern] if source.topic_pattern else list(source.subscription)


def _resolved(cluster: ClusterView, at: Point, log: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
    if at.kind == "offset":
        return dict.fromkeys(log, at.at)
    if at.kind == "time":
        found = cluster.offsets_for_times(dict.fromkeys(log, at.at))
        # None: behind the last record. Beyond the end are transactions that are not finished.
        return {
            place: high if (offset := found.get(place)) is None else min(offset, high)
            for place, (_, high) in log.items()
        }
    return {place: bounds[0 if at.kind == "earliest" else 1] for place, bounds in log.items()}


def _check_within(first: Point, end: Point, log: Mapping[Place, tuple[int, int]]) -> None:
    outside = {
        place: (low, high)
        for place, (low, high) in log.items()
        if any(point.kind == "offset" and not low <= point.at <= high for point in (first, end))
    }
    if outside:
        raise ConfigError(
            "the range is not within the log",
            received=f"{first} to {end}",
            allowed=_bounds(outside),
            hint="choose a partition with --partition, or a range by time",
        )


def _bounds(log: Mapping[Place, tuple[int, int]]) -> Sequence[str]:
    return [f"{topic}/{partition}: {low} to {high}" for (topic, partition), (low, high) in sorted(log.items())]
