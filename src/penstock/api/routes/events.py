"""Changes as they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from penstock.api.asking import Asking, AtDesk, actor_of
from penstock.api.streams import STREAM, watched
from penstock.service.operations import dead_letters, pipelines, work_orders
from penstock.service.operations.paging import MOST

router = APIRouter(prefix="/events", tags=["events"])

_EVERY = 1.0
_LONGEST = 3_600.0


@router.get(
    "",
    summary="Pipelines and jobs, whenever they change, as server-sent events",
    response_class=StreamingResponse,
    responses=STREAM,
)
def events(
    desk: AtDesk,
    actor: Asking,
    request: Request,
    seconds: Annotated[float, Query(gt=0, le=_LONGEST, description="How long; ask again afterwards.")] = _LONGEST,
) -> StreamingResponse:
    pipelines.list_pipelines(desk, actor, limit=1)  # who may see none is told so at once

    def look() -> dict[str, object]:
        # Asked each time: a session may have ended, a role may have changed.
        now = actor_of(request)
        page = pipelines.list_pipelines(desk, now, limit=MOST)
        return {
            "pipelines": [item.model_dump(mode="json") for item in page.items],
            "jobs": [job.model_dump(mode="json") for job in dead_letters.jobs(desk, now)],
            "work_order_jobs": [job.model_dump(mode="json") for job in work_orders.jobs(desk, now)],
        }

    return watched(actor, look, _EVERY, seconds)
