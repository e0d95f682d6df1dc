"""Lightning's own paths, for programs that were written for it: they read work orders, runs and log lines, and retry
runs. All else, and errors, are as in the rest of the API."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import lightning
from penstock.service.operations.lightning import LightningQuery, Listing, LogQuery, Single
from penstock.service.operations.models import Text
from penstock.service.operations.work_order_models import RetryView

PLACE: Final = ""
"""Not below the other routes."""
router = APIRouter(tags=["lightning"])

Project = Annotated[str, Path(description="Id of a project.", max_length=100)]
Id = Annotated[str, Path(max_length=100)]


class Retry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    step_id: Text | None = Field(default=None, description="Id of a step of the run to begin at.")


class Retried(BaseModel):
    data: RetryView


@router.get("/api/work_orders", summary="Work orders, as Lightning lists them")
def list_work_orders(
    desk: AtDesk, actor: Asking, request: Request, query: Annotated[LightningQuery, Query()]
) -> Listing:
    return _linked(request, query, lightning.list_work_orders(desk, actor, query))


@router.get("/api/work_orders/{work_order}", summary="A work order, as Lightning shows it")
def get_work_order(desk: AtDesk, actor: Asking, work_order: Id) -> Single:
    return lightning.get_work_order(desk, actor, work_order)


@router.get("/api/runs", summary="Runs, as Lightning lists them")
def list_runs(desk: AtDesk, actor: Asking, request: Request, query: Annotated[LightningQuery, Query()]) -> Listing:
    return _linked(request, query, lightning.list_runs(desk, actor, query))


@router.get("/api/runs/{run}", summary="A run, as Lightning shows it")
def get_run(desk: AtDesk, actor: Asking, run: Id) -> Single:
    return lightning.get_run(desk, actor, run)


@router.get("/api/log_lines", summary="Log lines, as Lightning lists them")
def list_log_lines(desk: AtDesk, actor: Asking, request: Request, query: Annotated[LogQuery, Query()]) -> Listing:
    return _linked(request, query, lightning.list_log_lines(desk, actor, query))


@router.get("/api/projects/{project}/work_orders", summary="Work orders of a project, as Lightning lists them")
def list_project_work_orders(
    desk: AtDesk, actor: Asking, request: Request, project: Project, query: Annotated[LightningQuery, Query()]
) -> Listing:
    return _linked(request, query, lightning.list_work_orders(desk, actor, query, project))


@router.get("/api/projects/{project}/runs", summary="Runs of a project, as Lightning lists them")
def list_project_runs(
    desk: AtDesk, actor: Asking, request: Request, project: Project, query: Annotated[LightningQuery, Query()]
) -> Listing:
    return _linked(request, query, lightning.list_runs(desk, actor, query, project))


@router.post("/projects/{project}/runs/{run}/retry", summary="Run again, at Lightning's path")
def retry(
    desk: AtDesk, actor: Asking, project: Project, run: Id, begin: Annotated[Retry | None, Body()] = None
) -> Retried:
    return Retried(data=lightning.retry(desk, actor, project, run, begin.step_id if begin else None))


def _linked(request: Request, query: LightningQuery, found: Listing) -> Listing:
    """With links to other pages of the list."""
    given = query.model_dump(exclude_none=True)

    def link(page: int) -> str | None:
        if not 1 <= page <= found.meta.total_pages:
            return None
        return f"{request.url.path}?{urlencode(given | {'page': page})}"

    pages = {"self": query.page, "first": 1, "last": found.meta.total_pages}
    pages |= {"prev": query.page - 1, "next": query.page + 1}
    return found.model_copy(update={"links": {name: link(page) for name, page in pages.items()}})
