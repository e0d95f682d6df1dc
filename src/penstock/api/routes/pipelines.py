"""Pipelines: looked at, paused, resumed, stopped and restarted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.api.asking import After, Asking, AtDesk, Limit, Name, etag
from penstock.core.status import State
from penstock.service.operations import pipelines
from penstock.service.operations.models import HistoryEntry, PartitionView, PipelineDetail, PipelineItem
from penstock.service.operations.paging import Page

router = APIRouter(prefix="/pipelines", tags=["pipelines"])


class Command(BaseModel):
    """Why, and how long to wait until running instances have obeyed."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "maintenance", "wait": 10}]})

    reason: str | None = Field(default=None, max_length=1_000)
    wait: float = Field(default=0.0, ge=0.0, le=60.0, description="Seconds.")


class Resume(Command):
    skip: bool = Field(default=False, description="Step over the event at which failure_mode THROW stopped.")


class RateLimit(BaseModel):
    """How many events a pipeline takes, over all instances."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"rate": "100/s"}]})

    rate: str = Field(max_length=50, description="As 100/s or 6000/m; `none`; or `default`: as the spec says.")


Why = Annotated[Command | None, Body()]


@router.get("", summary="List pipelines")
def list_pipelines(
    desk: AtDesk,
    actor: Asking,
    state: State | None = None,
    text: Annotated[str | None, Query(description="Part of the name.", max_length=1_000)] = None,
    project: Annotated[str | None, Query(description="Id of a project.", max_length=100)] = None,
    limit: Limit = 100,
    after: After = None,
) -> Page[PipelineItem]:
    return pipelines.list_pipelines(desk, actor, state=state, text=text, project=project, limit=limit, after=after)


@router.get("/{name}", summary="A pipeline with its spec and partitions")
def get_pipeline(desk: AtDesk, actor: Asking, name: Name, response: Response) -> PipelineDetail:
    found = pipelines.get_pipeline(desk, actor, name)
    response.headers.update(etag(found.revision))
    return found


@router.get("/{name}/partitions", summary="Partitions, with lag and owners")
def partitions(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    ask: Annotated[bool, Query(description="Ask the cluster now, instead of what instances said last.")] = False,
) -> list[PartitionView]:
    return pipelines.partitions(desk, actor, name, ask=ask)


@router.get("/{name}/history", summary="What happened to a pipeline, newest first")
def history(desk: AtDesk, actor: Asking, name: Name, limit: Limit = 100) -> list[HistoryEntry]:
    return pipelines.history(desk, actor, name, limit=limit)


@router.post("/{name}/pause", summary="Keep the partitions, and run nothing")
def pause(desk: AtDesk, actor: Asking, name: Name, why: Why = None) -> PipelineItem:
    why = why or Command()
    return pipelines.pause(desk, actor, name, why.reason, why.wait)


@router.post("/{name}/resume", summary="Run again, whatever it was that stopped it")
def resume(desk: AtDesk, actor: Asking, name: Name, why: Annotated[Resume | None, Body()] = None) -> PipelineItem:
    why = why or Resume()
    return pipelines.resume(desk, actor, name, why.reason, why.wait, skip=why.skip)


@router.post("/{name}/stop", summary="Leave the consumer group, until resumed")
def stop(desk: AtDesk, actor: Asking, name: Name, why: Why = None) -> PipelineItem:
    why = why or Command()
    return pipelines.stop(desk, actor, name, why.reason, why.wait)


@router.post("/{name}/restart", summary="Leave the group, let go of everything, and begin anew")
def restart(desk: AtDesk, actor: Asking, name: Name, why: Why = None) -> PipelineItem:
    why = why or Command()
    return pipelines.restart(desk, actor, name, why.reason, why.wait)


@router.put("/{name}/rate-limit", summary="Limit how many events a pipeline takes")
def limit_rate(desk: AtDesk, actor: Asking, name: Name, wanted: Annotated[RateLimit, Body()]) -> PipelineItem:
    return pipelines.limit_rate(desk, actor, name, wanted.rate)
