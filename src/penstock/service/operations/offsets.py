"""Offsets of pipelines' groups: shown, and set to another place after a look at what that does."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.act.registry import has_cursor
from penstock.core.clock import parse_time
from penstock.core.errors import ConfigError
from penstock.service.access import Actor
from penstock.service.audit import audited
from penstock.service.exactly_once import require_reapply
from penstock.service.offsets import Move, PlaceView, Target, cluster_of, plan_reset, reset_offsets, show_offsets
from penstock.service.offsets import subscribed_topics as topics_of
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import Text, View
from penstock.service.vacating import LEAVE_SECONDS, with_group

_FARTHEST: Final = 2**62


class OffsetView(View):
    """Where a group stands in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The lowest offset that is not finished; null: nothing is committed."""
    start: int | None
    """First offset of the log."""
    end: int | None
    lag: int | None
    ahead: int = 0
    """Events beyond the committed offset that are finished already."""
    member: str | None = None
    """Client id and host of the consumer that reads it."""

    @classmethod
    def of(cls, place: PlaceView) -> OffsetView:
        return cls(**place.as_dict())


class MoveView(View):
    """What a reset does to one partition."""

    topic: str
    partition: int
    old: int | None
    new: int
    skipped: int | None
    """Offsets that would never be worked on; null: nothing was committed, so it is not known."""
    repeated: int | None
    """Offsets that were finished and will be worked on again."""

    @classmethod
    def of(cls, move: Move) -> MoveView:
        return cls(**move.as_dict())


class ResetRequest(BaseModel):
    """Where to set offsets."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"to": "time", "time": "2026-01-01T00:00:00Z"}, {"to": "shift", "by": -100}]},
    )

    to: Literal["earliest", "latest", "time", "shift", "offset", "group"]
    """The place: the log's start or end, a time, so many offsets on or back, an offset, or where a group stands."""
    time: Text | None = None
    """With `time`: as 2026-01-01T00:00:00Z, or epoch milliseconds."""
    by: int | None = Field(default=None, ge=-_FARTHEST, le=_FARTHEST)
    """With `shift`: how many offsets, below zero for back."""
    offset: int | None = Field(default=None, ge=0, le=_FARTHEST)
    """With `offset`: which one."""
    group: str | None = Field(default=None, max_length=1_000)
    """With `group`: whose offsets to take over."""
    topic: str | None = Field(default=None, max_length=249)
    """Only this topic; absent: all that the pipeline reads."""
    partition: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Only this partition."""
    reapply: bool = False
    """For pipelines that write into tables: set the table's cursor too, so that rows are written again."""

    def target(self) -> Target:
        """`ConfigError` where it does not say where to, once."""
        wanted = {"time": "time", "shift": "by", "offset": "offset", "group": "group"}
        own = wanted.get(self.to)
        given = [name for name in wanted.values() if getattr(self, name) is not None]
        if given != ([own] if own else []):
            raise ConfigError(f"`to: {self.to}` goes with {own or 'nothing else'}", received=given, allowed=own)
        if self.to == "time":
            return Target("time", _millis(self.time or ""))
        if self.to == "group":
            return Target("group", group=self.group or "")
        return Target(self.to, int(getattr(self, own) if own else 0))


def show(desk: Desk, actor: Actor, name: str) -> list[OffsetView]:
    """Every partition that the pipeline reads, as the cluster says now."""
    desk.pipeline(actor, "offsets.view", name)
    spec = with_group(desk.spec(name))
    cluster = cluster_of(spec)
    return [OffsetView.of(place) for place in show_offsets(cluster, spec.group, topics_of(cluster, spec))]


def stands_by_cursor(desk: Desk, actor: Actor, name: str) -> bool:
    """Whether a table says where the pipeline stands, so that its offsets are set with `reapply` only."""
    desk.pipeline(actor, "offsets.view", name)
    return has_cursor(desk.spec(name))


def preview(desk: Desk, actor: Actor, name: str, request: ResetRequest) -> list[MoveView]:
    """What a reset would do; nothing is changed."""
    desk.pipeline(actor, "offsets.view", name)
    target = request.target()
    spec = desk.spec(name)
    require_reapply(spec, reapply=request.reapply)
    moves = plan_reset(cluster_of(spec), spec, target, topic=request.topic, partition=request.partition)
    return [MoveView.of(move) for move in moves]


def reset(desk: Desk, actor: Actor, name: str, request: ResetRequest, timeout: float = LEAVE_SECONDS) -> list[MoveView]:
    """Set the offsets while no instance is in the group; what was done."""
    project = desk.pipeline(actor, "offsets.reset", name)
    target = request.target()
    spec = desk.spec(name)
    data = request.model_dump(exclude_none=True)
    with audited(desk.store, actor, "offsets.reset", f"pipeline/{name}", project=project, data=data) as change:
        moves = reset_offsets(
            desk.store,
            cluster_of(spec),
            spec,
            target,
            topic=request.topic,
            partition=request.partition,
            timeout=timeout,
            reapply=request.reapply,
        )
        change.data["partitions"] = [move.as_dict() for move in moves[:1_000]]
        change.after = str(target)
    desk.forget()
    return [MoveView.of(move) for move in moves]


def _millis(text: str) -> int:
    try:
        at = int(text) if text.strip().isdecimal() else parse_time(text)
    except (ValueError, OverflowError) as error:
        raise ConfigError(str(error), received=text) from None
    if not 0 <= at < 253_402_300_800_000:
        raise ConfigError("a time between 1970 and the year 9999 is wanted", received=text)
    return at
