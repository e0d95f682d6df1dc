"""Offsets of a pipeline's group: shown, and set to another place with a preview of what that skips or repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from penstock.config.spec import PipelineSpec
from penstock.core.clock import format_time
from penstock.core.commit_metadata import Note, decode, encode
from penstock.core.errors import ConfigError
from penstock.kafka.admin import ClusterView, Place
from penstock.kafka.client import KafkaClientConfig
from penstock.service.cursors import set_cursors
from penstock.service.exactly_once import require_reapply
from penstock.service.pipelines import person
from penstock.service.vacating import LEAVE_SECONDS, vacated, with_group
from penstock.store import MirrorRow, Store

_NOWHERE: tuple[None, None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceView:
    """Where a group stands in one partition, in the shape that `penstock offsets show --json` promises."""

    topic: str
    partition: int
    committed: int | None
    """The lowest offset that is not finished; None: nothing is committed."""
    start: int | None
    """First offset of the log."""
    end: int | None
    lag: int | None
    ahead: int = 0
    """Events beyond the committed offset that are finished already."""
    member: str | None = None
    """Client id and host of the consumer that reads it."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Target:
    """Where offsets shall be set to."""

    kind: Literal["earliest", "latest", "time", "shift", "offset", "group"]
    number: int = 0
    """Epoch milliseconds, number of offsets, or offset."""
    group: str = ""

    def __str__(self) -> str:
        words = {
            "time": format_time(self.number) if self.kind == "time" else "",
            "shift": f"{self.number:+d}",
            "offset": f"offset {self.number}",
            "group": f"the offsets of group {self.group}",
        }
        return words.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a reset does to one partition."""

    topic: str
    partition: int
    old: int | None
    new: int
    skipped: int | None
    """Offsets that would never be worked on; None: nothing was committed, so it is not known."""
    repeated: int | None
    """Offsets that were finished and will be worked on again."""

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def cluster_of(spec: PipelineSpec) -> ClusterView:
    """The cluster that a pipeline reads from."""
    return ClusterView(KafkaClientConfig.of(spec.source.config.connection))


def show_offsets(cluster: ClusterView, group: str, topics: Sequence[str] = ()) -> list[PlaceView]:
    """Every partition of these topics, and every other one for which the group has committed something."""
    committed = cluster.committed_anywhere(group)
    counts = cluster.topics()
    places = sorted({(topic, n) for topic in topics for n in range(counts.get(topic, 0))} | set(committed))
    bounds = cluster.watermarks([place for place in places if place[0] in counts])
    members = {
        place: f"{member.client_id} on {member.host.lstrip('/')}"
        for member in cluster.group_members(group)
        for place in member.assigned
    }
    views = []
    for place in places:
        offset, text = committed.get(place, _NOWHERE)
        start, end = bounds.get(place, _NOWHERE)
        at = start if offset is None else offset
        note = _note(offset, text)
        views.append(
            PlaceView(
                topic=place[0],
                partition=place[1],
                committed=offset,
                start=start,
                end=end,
                lag=None if end is None or at is None else max(0, end - at),
                ahead=0 if note is None or offset is None else note.next_offset - offset - len(note.pending),
                member=members.get(place),
            )
        )
    return views


def subscribed_topics(cluster: ClusterView, spec: PipelineSpec) -> list[str]:
    """The topics a pipeline reads, of those that exist."""
    return spec.source.config.subscribed(cluster.topics())


def plan_reset(
    cluster: ClusterView, spec: PipelineSpec, target: Target, *, topic: str | None = None, partition: int | None = None
) -> list[Move]:
    """What a reset would do, per partition; an error where it cannot be done everywhere it is asked for."""
    with_group(spec)
    places = _places(cluster, spec, topic, partition)
    committed = cluster.committed(spec.group, places)
    bounds = cluster.watermarks(places)
    found = _targets(cluster, target, committed, bounds)
    _within_the_log(found, bounds)
    return [_move(place, committed.get(place, _NOWHERE), found[place], bounds[place]) for place in places]


def reset_offsets(
    store: Store | None,
    cluster: ClusterView,
    spec: PipelineSpec,
    target: Target,
    *,
    topic: str | None = None,
    partition: int | None = None,
    timeout: float = LEAVE_SECONDS,
    reapply: bool = False,
) -> list[Move]:
    """Set the offsets while nobody is in the group. What was done: instances went on since the preview.

    `reapply`: the cursor of the pipeline's table too, so that rows are written again."""
    require_reapply(spec, reapply=reapply)
    with vacated(store, cluster, spec, timeout):
        moves = plan_reset(cluster, spec, target, topic=topic, partition=partition)
        ids = cluster.topic_ids({move.topic for move in moves})
        commits = {move.place: (move.new, encode(ids[move.topic], move.new, move.new, ())) for move in moves}
        mirror = [
            MirrorRow(group=spec.group, topic=t, topic_id=ids[t], partition=n, offset=offset, metadata=text)
            for (t, n), (offset, text) in commits.items()
        ]
        if store is not None:
            # Before the broker where offsets go back, after it where they go on: should we die in between, the mirror
            # repeats events rather than leave some out.
            back = {move.place for move in moves if move.old is not None and move.new < move.old}
            store.offsets.mirror([row for row in mirror if (row.topic, row.partition) in back], force=True)
        if reapply:
            set_cursors(spec, {move.place: move.new for move in moves}, ids)
        cluster.alter_offsets(spec.group, commits)
        if store is not None:
            store.offsets.mirror(mirror, force=True)
            data = {"to": str(target), "by": person(), "partitions": [move.as_dict() for move in moves]}
            store.pipelines.note(spec.name, None, "reset", f"offsets set to {target} by {person()}", data)
    return moves


def _places(cluster: ClusterView, spec: PipelineSpec, topic: str | None, partition: int | None) -> list[Place]:
    topics = subscribed_topics(cluster, spec)
    counts = cluster.existing([topic] if topic is not None else topics)
    if topic is not None and topic not in topics:
        raise ConfigError(f"{spec.name} does not read topic {topic}", received=topic, allowed=topics)
    if not topics:
        raise ConfigError(
            f"no topic that {spec.name} reads exists", received=spec.source.config.subscription, hint="create it first"
        )
    places = [(name, n) for name in sorted(counts) for n in range(counts[name]) if partition in (None, n)]
    if not places:
        raise ConfigError(
            f"there is no partition {partition}",
            received=partition,
            allowed=[f"{name}: 0 to {count - 1}" for name, count in sorted(counts.items())],
        )
    return places


def _targets(
    cluster: ClusterView,
    target: Target,
    committed: Mapping[Place, tuple[int | None, str | None]],
    bounds: Mapping[Place, tuple[int, int]],
) -> dict[Place, int]:
    if target.kind == "earliest":
        return {place: low for place, (low, _) in bounds.items()}
    if target.kind == "latest":
        return {place: high for place, (_, high) in bounds.items()}
    if target.kind == "time":
        young = cluster.offsets_for_times(dict.fromkeys(bounds, target.number))
        return {place: high if (at := young.get(place)) is None else at for place, (_, high) in bounds.items()}
    if target.kind == "offset":
        return dict.fromkeys(bounds, target.number)
    group, shift = ("", target.number) if target.kind == "shift" else (target.group, 0)
    known = cluster.committed(group, list(bounds)) if group else committed
    missing = [_name(place) for place in bounds if known.get(place, _NOWHERE)[0] is None]
    if missing:
        whose = f"group {group}" if group else "the group"
        raise ConfigError(
            f"{whose} has no offset for {', '.join(missing)}",
            received=missing,
            hint="choose partitions by --topic and --partition, or another place to go to",
        )
    return {place: (known[place][0] or 0) + shift for place in bounds}


def _within_the_log(found: Mapping[Place, int], bounds: Mapping[Place, tuple[int, int]]) -> None:
    outside = [place for place, offset in found.items() if not bounds[place][0] <= offset <= bounds[place][1]]
    if outside:
        raise ConfigError(
            f"outside the log: {', '.join(f'{_name(place)} at {found[place]}' for place in outside)}",
            received=[found[place] for place in outside],
            allowed=[f"{_name(place)}: {bounds[place][0]} to {bounds[place][1]}" for place in outside],
        )


def _move(place: Place, was: tuple[int | None, str | None], new: int, bounds: tuple[int, int]) -> Move:
    topic, partition = place
    note = _note(*was)
    if note is None:
        return Move(topic=topic, partition=partition, old=None, new=new, skipped=None, repeated=None)
    low = bounds[0]
    next_offset = max(note.next_offset, low)
    pending = [hole for hole in note.pending if hole >= low]
    skipped = sum(hole < new for hole in pending) + max(0, new - next_offset)
    repeated = max(0, next_offset - new - sum(hole >= new for hole in pending))
    return Move(topic=topic, partition=partition, old=was[0], new=new, skipped=skipped, repeated=repeated)


def _note(offset: int | None, text: str | None) -> Note | None:
    return None if offset is None else decode(offset, text or "")


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"
