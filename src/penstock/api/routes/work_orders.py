"""Work orders: what messages asked for, and what became of it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import work_orders
from penstock.service.operations.models import Text
from penstock.service.operations.paging import Page
from penstock.service.operations.work_order_models import (
    CancelView,
    CountView,
    DataclipView,
    RetryView,
    WorkOrderChoice,
    WorkOrderDetail,
    WorkOrderItem,
    WorkOrderJob,
    WorkOrderOrder,
    WorkOrderPlan,
    WorkOrderQuery,
)

router = APIRouter(prefix="/work-orders", tags=["work orders"])

_ZIP: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Tables of work orders, runs, steps and logs, and dataclips as JSON lines.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class ListQuery(WorkOrderQuery):
    """Which work orders, and which page of them."""

    order: WorkOrderOrder = Field(default="created", description="What the newest are the first by.")
    limit: int = Field(default=10, ge=1, le=1_000)
    after: str | None = Field(default=None, max_length=2_000, description="`next` of the page before.")

    def only(self) -> WorkOrderQuery:
        return WorkOrderQuery(**self.model_dump(exclude={"order", "limit", "after"}))


class From(BaseModel):
    """Where a retry begins."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"step": "send"}]})

    step: Text | None = Field(default=None, description="Begin at this step, with what it was given; absent: anew.")


class JobRequest(WorkOrderChoice):
    dry_run: bool = Field(default=False, description="Only say how many would be taken.")

    def choice(self) -> WorkOrderChoice:
        return WorkOrderChoice(ids=self.ids, filter=self.filter, everything=self.everything)


class RetryRequest(JobRequest):
    step: Text | None = Field(default=None, description="Begin at this step; the filter names one workflow then.")


Id = Annotated[str, Path(description="Id of a work order, or of one of its runs.", max_length=100)]
JobId = Annotated[str, Path(description="Id of a job.", max_length=100)]


@router.get("", summary="List work orders, newest first")
def list_work_orders(desk: AtDesk, actor: Asking, query: Annotated[ListQuery, Query()]) -> Page[WorkOrderItem]:
    return work_orders.list_work_orders(
        desk, actor, query.only(), order=query.order, limit=query.limit, after=query.after
    )


@router.get("/count", summary="How many work orders there are")
def count(desk: AtDesk, actor: Asking, query: Annotated[WorkOrderQuery, Query()]) -> CountView:
    return work_orders.count_work_orders(desk, actor, query)


@router.get("/export", summary="All work orders that match, as a zip", response_class=FileResponse, responses=_ZIP)
def export(desk: AtDesk, actor: Asking, query: Annotated[WorkOrderQuery, Query()]) -> FileResponse:
    folder = FilePath(tempfile.mkdtemp(prefix="penstock-export-"))
    file = folder / "work-orders.zip"
    try:
        work_orders.export(desk, actor, query, file)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    away = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(file, media_type="application/zip", filename=file.name, background=away)


@router.get("/jobs", summary="Retries, cancellations and exports of many work orders, newest first")
def jobs(desk: AtDesk, actor: Asking) -> list[WorkOrderJob]:
    return work_orders.jobs(desk, actor)


@router.get("/jobs/{job}", summary="How far a job has come")
def get_job(desk: AtDesk, actor: Asking, job: JobId) -> WorkOrderJob:
    return work_orders.job(desk, actor, job)


@router.post("/jobs/{job}/stop", summary="Let a job end early, in good order")
def stop_job(desk: AtDesk, actor: Asking, job: JobId) -> WorkOrderJob:
    return work_orders.stop_job(desk, actor, job)


@router.post("/retry", status_code=202, summary="Run many work orders again, in the background")
def retry_many(desk: AtDesk, actor: Asking, request: Annotated[RetryRequest, Body()]) -> WorkOrderJob | WorkOrderPlan:
    if request.dry_run:
        return work_orders.plan(desk, actor, "retry", request.choice(), step=request.step)
    return work_orders.start(desk, actor, "retry", request.choice(), step=request.step)


@router.post("/cancel", status_code=202, summary="Cancel many work orders that have not begun, in the background")
def cancel_many(desk: AtDesk, actor: Asking, request: Annotated[JobRequest, Body()]) -> WorkOrderJob | WorkOrderPlan:
    if request.dry_run:
        return work_orders.plan(desk, actor, "cancel", request.choice())
    return work_orders.start(desk, actor, "cancel", request.choice())


@router.get("/{work_order}", summary="A work order with its runs, steps, logs and dataclips")
def get_work_order(desk: AtDesk, actor: Asking, work_order: Id) -> WorkOrderDetail:
    return work_orders.get_work_order(desk, actor, work_order)


@router.get("/{work_order}/dataclips/{dataclip}", summary="An input or result of a work order, whole")
def get_dataclip(
    desk: AtDesk, actor: Asking, work_order: Id, dataclip: Annotated[str, Path(max_length=100)]
) -> DataclipView:
    return work_orders.get_dataclip(desk, actor, work_order, dataclip)


@router.post("/{work_order}/retry", summary="Run a work order again, from the start or from a step")
def retry(desk: AtDesk, actor: Asking, work_order: Id, begin: Annotated[From | None, Body()] = None) -> RetryView:
    return work_orders.retry(desk, actor, work_order, step=begin.step if begin else None)


@router.post("/{work_order}/cancel", summary="Cancel what is unfinished of a work order")
def cancel(desk: AtDesk, actor: Asking, work_order: Id) -> CancelView:
    return work_orders.cancel(desk, actor, work_order)
