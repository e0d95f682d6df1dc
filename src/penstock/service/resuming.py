"""Enabling a trigger: where it goes on, and what to ask when the broker has forgotten that."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock.config.source import parse_start
from penstock.config.spec import PipelineSpec
from penstock.core.errors import ConfigError, Unavailable
from penstock.kafka.admin import ClusterView, Place
from penstock.service.cursors import get_cursors
from penstock.service.offsets import Move, Target, cluster_of, reset_offsets, subscribed_topics
from penstock.service.workflows import TAKEN_OVER
from penstock.store import Store
from penstock.store.work.model import TriggerRow

COMMITTED: Final = "committed"


class OffsetsGone(ConfigError):
    """The group has forgotten where it was; somebody must say where to go on."""

    code = "offsets_gone"

    def __init__(self, message: str, standing: Standing) -> None:
        super().__init__(
            message,
            received=standing.group,
            allowed=[f"{name}: {text}" for name, text in standing.choices().items()],
            hint="say where to go on: --resume committed, earliest, latest or a time",
        )
        self.standing = standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a trigger's group stands."""

    group: str
    committed: dict[Place, int]
    remembered: dict[Place, int]
    """As the store knows it; it outlives the broker's memory."""
    bounds: dict[Place, tuple[int, int]]
    taken_over: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether the group had offsets, and has none now."""
        return not self.committed and (bool(self.remembered) or self.taken_over)

    def choices(self) -> dict[str, str]:
        """What each way to go on would read."""
        found = {
            "earliest": f"reads {sum(high - low for low, high in self.bounds.values())} messages that are still there",
            "latest": "reads only what comes from now on",
            "TIME": "reads what came at or after it (ISO, or epoch milliseconds)",
        }
        if self.remembered:
            ahead = sum(
                max(0, self.bounds[place][1] - at) for place, at in self.remembered.items() if place in self.bounds
            )
            found = {COMMITTED: f"goes on where the store remembers, {ahead} messages before the end"} | found
        return found


@dataclass(slots=True)
class Enabled:
    """What enabling did."""

    trigger: TriggerRow
    moves: list[Move] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.trigger.id,
            "name": self.trigger.name,
            "enabled": self.trigger.enabled,
            "partitions": [asdict(move) for move in self.moves],
            "warnings": self.warnings,
        }


def standing(store: Store, cluster: ClusterView, spec: PipelineSpec, row: TriggerRow) -> Standing:
    """Ask the cluster and the store where the group is."""
    counts = cluster.topics()
    places = [(topic, n) for topic in subscribed_topics(cluster, spec) for n in range(counts[topic])]
    committed = {place: at for place, (at, _) in cluster.committed(spec.group, places).items() if at is not None}
    mirrored = {place: mirror.offset for place, mirror in store.offsets.mirrored(spec.group).items()}
    # The cursor is moved with the work orders themselves; the mirror follows a little later.
    remembered = mirrored | get_cursors(spec)
    return Standing(
        group=spec.group,
        committed=committed,
        remembered=remembered,
        bounds=cluster.watermarks(places),
        taken_over=bool(row.options.get(TAKEN_OVER)),
    )


def enable(store: Store, spec: PipelineSpec, row: TriggerRow, resume: str | None = None) -> Enabled:
    """Let a trigger run on every instance. `OffsetsGone` where nobody has said where to go on, and somebody must."""
    done = Enabled(row)
    try:
        _choose(store, spec, row, resume, done)
    except Unavailable as error:
        if resume is not None:
            raise
        done.warnings.append(f"it is not known whether the group still has its offsets: {error.message}")
    done.trigger = store.triggers.set_enabled(row.id, True)
    return done


def _choose(store: Store, spec: PipelineSpec, row: TriggerRow, resume: str | None, done: Enabled) -> None:
    cluster = cluster_of(spec)
    if resume is None or resume == COMMITTED:
        where = standing(store, cluster, spec, row)
        if resume is None and where.is_gone:
            raise OffsetsGone(f"the broker has forgotten the offsets of group {spec.group}", where)
        if resume == COMMITTED and not where.committed and not where.remembered:
            raise OffsetsGone(f"neither the broker nor the store knows an offset of group {spec.group}", where)
        return
    done.moves = reset_offsets(store, cluster, spec, _target(resume), reapply=True)


def _target(resume: str) -> Target:
    try:
        start = parse_start(resume)
    except ValueError as error:
        raise ConfigError(f"--resume: {error}, or {COMMITTED}", received=resume) from None
    return Target("time", start) if isinstance(start, int) else Target(start)
