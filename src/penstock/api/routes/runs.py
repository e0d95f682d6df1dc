"""Runs of work orders."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query
from pydantic import Field

from penstock.api.asking import After, Asking, AtDesk
from penstock.api.routes.work_orders import From
from penstock.service.operations import runs, work_orders
from penstock.service.operations.paging import Page
from penstock.service.operations.runs import RunQuery
from penstock.service.operations.work_order_models import CancelView, LogView, RetryView, RunItem, RunPage

router = APIRouter(prefix="/runs", tags=["runs"])


class ListQuery(RunQuery):
    """Which runs, and which page of them."""

    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = Field(default=None, max_length=2_000, description="`next` of the page before.")

    def only(self) -> RunQuery:
        return RunQuery(**self.model_dump(exclude={"limit", "after"}))


RunId = Annotated[str, Path(description="Id of a run.", max_length=100)]


@router.get("", summary="List runs, newest first")
def list_runs(desk: AtDesk, actor: Asking, query: Annotated[ListQuery, Query()]) -> Page[RunItem]:
    return runs.list_runs(desk, actor, query.only(), limit=query.limit, after=query.after)


@router.get("/{run}", summary="A run with its steps, first log lines, inputs and results")
def get_run(desk: AtDesk, actor: Asking, run: RunId) -> RunPage:
    return runs.get_run(desk, actor, run)


@router.get("/{run}/logs", summary="What a run wrote, in its order")
def list_logs(
    desk: AtDesk, actor: Asking, run: RunId, limit: Annotated[int, Query(ge=1, le=1_000)] = 1_000, after: After = None
) -> Page[LogView]:
    return runs.list_logs(desk, actor, run, limit=limit, after=after)


@router.post("/{run}/retry", summary="Run again as this run was, or from a step with what this run gave it")
def retry(desk: AtDesk, actor: Asking, run: RunId, begin: Annotated[From | None, Body()] = None) -> RetryView:
    return work_orders.retry(desk, actor, run, step=begin.step if begin else None)


@router.post("/{run}/cancel", summary="Cancel a run that waits or is executed")
def cancel(desk: AtDesk, actor: Asking, run: RunId) -> CancelView:
    return work_orders.cancel(desk, actor, run)
