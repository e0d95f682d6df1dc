"""What the stages of a pipeline did and how long they take, for the picture of it."""

from __future__ import annotations

from pydantic import Field

from penstock.service.access import Actor
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.service.status import INSTANCE_SILENCE


class StageTimes(View):
    """How long a stage takes per event."""

    p50_ms: float | None = None
    p99_ms: float | None = None


class StageCounts(View):
    """Over all instances that live, since each was started."""

    read: int = 0
    filtered: int = 0
    acted: int = 0
    failed: int = 0
    p50_ms: float | None = None
    """From the record's timestamp to the end of its action; of the slowest instance."""
    p99_ms: float | None = None
    times: dict[str, StageTimes] = Field(default_factory=dict)
    """By stage (`decode`, `filter`, `transform`, `act`, `write`), on the instance that answers."""


def stage_counts(desk: Desk, actor: Actor, name: str) -> StageCounts:
    desk.pipeline(actor, "pipelines.view", name)
    alive = {row.id for row in desk.store.instances.alive(INSTANCE_SILENCE)}
    said = [row for row in desk.store.pipelines.states() if row.pipeline == name and row.instance in alive]
    here = desk.instance()
    flow = next((flow for flow in list(here.runners) if flow.name == name), None) if here else None
    return StageCounts(
        read=sum(row.events for row in said),
        filtered=sum(row.filtered for row in said),
        acted=sum(row.acted for row in said),
        failed=sum(row.failures for row in said),
        p50_ms=max((row.p50_ms for row in said if row.p50_ms is not None), default=None),
        p99_ms=max((row.p99_ms for row in said if row.p99_ms is not None), default=None),
        times={
            stage: StageTimes(p50_ms=times.quantile(0.5), p99_ms=times.quantile(0.99))
            for stage, times in (dict(flow.stats.times) if flow else {}).items()
        },
    )
