"""The running instances."""

from __future__ import annotations

from pydantic import Field

from penstock.core.clock import format_time
from penstock.core.status import State
from penstock.service.access import Actor, allows, require_somewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
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


class InstanceView(View):
    """One running `penstock run`."""

    id: str
    host: str
    pid: int
    version: str
    started_at: str
    heard_at: str
    http_address: str | None = None
    this: bool = False
    """It is the one that answers."""
    pipelines: list[InstancePipeline] = Field(default_factory=list)


def list_instances(desk: Desk, actor: Actor) -> list[InstanceView]:
    """Those heard of lately, the oldest first, each with the pipelines that the actor may see."""
    require_somewhere(actor, "instances.view")
    visible = {name for name in desk.snapshot().names if allows(actor, "pipelines.view", desk.project_of(name))}
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
    return [
        InstanceView(
            id=row.id,
            host=row.host,
            pid=row.pid,
            version=row.version,
            started_at=format_time(row.started_at),
            heard_at=format_time(row.heartbeat_at),
            http_address=row.http_address,
            this=here is not None and here.id == row.id,
            pipelines=said.get(row.id, []),
        )
        for row in desk.store.instances.alive(INSTANCE_SILENCE)
    ]
