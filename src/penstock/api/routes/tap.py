"""What passes the stages of a pipeline, as it happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from penstock.api.asking import Asking, AtDesk, Name, actor_of
from penstock.api.streams import STREAM, streamed
from penstock.service.operations import tap as operations
from penstock.service.operations.tap import STAGES, TapStage

router = APIRouter(prefix="/pipelines/{name}/tap", tags=["pipelines"])


@router.get(
    "",
    summary="Samples of the events that pass each stage, as server-sent events",
    response_class=StreamingResponse,
    responses=STREAM,
)
def tap(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    request: Request,
    stage: Annotated[list[TapStage] | None, Query(description="Only these stages.", max_length=4)] = None,
    seconds: Annotated[float, Query(gt=0, le=300, description="How long.")] = 30.0,
    limit: Annotated[int, Query(ge=1, le=100_000, description="How many samples.")] = 1_000,
    per_second: Annotated[float, Query(ge=0.1, le=1_000, description="Most samples a second, of all stages.")] = 20.0,
) -> StreamingResponse:
    following = operations.tap(
        desk, actor, name, stages=stage or STAGES, seconds=seconds, limit=limit, per_second=per_second
    )
    return streamed(actor, following, "sample", lambda: desk.pipeline(actor_of(request), "topics.view", name))
