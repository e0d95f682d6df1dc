"""The running instances."""

from __future__ import annotations

from pydantic import Field

from penstock.core.clock import format_time
from penstock.core.status import State
from penstock.service.access import Actor, allows, require_somewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.service.operations.scoping import instance_name
from penstock.service.status import INSTANCE_SILENCE


class InstancePipeline(View):
    """What an instance says about a pipeline."""

    pipeline: str
    state: State
    reason: str | None = None
    events: int = 0
    failures: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None


class LaneView(View):
    """A lane: windows one after the other, each of them a Spark job."""

    lane: str
    running_for: float | None = None
    """Seconds that its window has run; null: it waits for work."""
    pipelines: list[str] = Field(default_factory=list)
    """Carried by its last window."""
    jobs: int = 0
    lost: int = 0
    """Windows whose worker died."""
    windows_per_second: float = 0.0
    """Over the last ten seconds."""
    mean_seconds: float | None = None
    """How long its windows took lately."""


class SparkView(View):
    """Spark, as the instance that answers uses it."""

    master: str | None = None
    """Null for those whose role holds for some projects only."""
    slots: int
    """Windows that can be worked on side by side: the cores."""
    running: int
    """Windows that run now; those that wait for events take no core on a local master."""
    jobs: int
    """Since it was started."""
    lost: int
    windows_per_second: float
    lanes: list[LaneView] = Field(default_factory=list)


class InstanceView(View):
    """One running `penstock run`."""

    id: str
    host: str | None = None
    """Null, as `pid` and `http_address`, for those whose role holds for some projects only."""
    pid: int | None = None
    version: str
    started_at: str
    heard_at: str
    http_address: str | None = None
    this: bool = False
    """It is the one that answers."""
    spark: SparkView | None = None
    """Of the one that answers; others are asked at their own address."""
    pipelines: list[InstancePipeline] = Field(default_factory=list)


def list_instances(desk: Desk, actor: Actor) -> list[InstanceView]:
    """Those heard of lately, the oldest first, each with the pipelines that the actor may see."""
    require_somewhere(actor, "instances.view")
    visible = _visible(desk, actor)
    said: dict[str, list[InstancePipeline]] = {}
    for row in desk.store.pipelines.states():
        if row.pipeline in visible:
            view = InstancePipeline(
                pipeline=row.pipeline,
                state=row.state,
                reason=row.reason,
                events=row.events,
                failures=row.failures,
                p50_ms=row.p50_ms,
                p99_ms=row.p99_ms,
            )
            said.setdefault(row.instance, []).append(view)
    here = desk.instance()
    used, everywhere = this_spark(desk, actor), allows(actor, "instances.view")
    return [
        InstanceView(
            id=instance_name(actor, row.id),
            host=row.host if everywhere else None,
            pid=row.pid if everywhere else None,
            version=row.version,
            started_at=format_time(row.started_at),
            heard_at=format_time(row.heartbeat_at),
            http_address=row.http_address if everywhere else None,
            this=here is not None and here.id == row.id,
            spark=used if here is not None and here.id == row.id else None,
            pipelines=said.get(row.id, []),
        )
        for row in desk.store.instances.alive(INSTANCE_SILENCE)
    ]


def _visible(desk: Desk, actor: Actor) -> set[str]:
    return {name for name in desk.snapshot().names if allows(actor, "pipelines.view", desk.project_of(name))}


def this_spark(desk: Desk, actor: Actor) -> SparkView | None:
    """What Spark does for the instance that answers; pipelines that the actor may not see are left out."""
    require_somewhere(actor, "instances.view")
    here = desk.instance()
    if here is None:
        return None
    spark, visible = here.spark, _visible(desk, actor)
    lanes = spark.book.lanes()
    return SparkView(
        master=spark.master if allows(actor, "instances.view") else None,
        slots=spark.cores,
        running=sum(lane.running_for is not None for lane in lanes),
        jobs=spark.jobs,
        lost=sum(lane.lost for lane in lanes),
        windows_per_second=sum(lane.per_second for lane in lanes),
        lanes=[
            LaneView(
                lane=lane.lane,
                running_for=lane.running_for,
                pipelines=[name for name in lane.pipelines if name in visible],
                jobs=lane.jobs,
                lost=lane.lost,
                windows_per_second=lane.per_second,
                mean_seconds=lane.mean_seconds,
            )
            for lane in lanes
        ],
    )
