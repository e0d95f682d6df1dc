"""Topics, through the connection of a pipeline."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import StreamingResponse

from penstock.api.asking import Asking, AtDesk, actor_of
from penstock.api.streams import STREAM, streamed
from penstock.service.operations import topics
from penstock.service.operations.topics import DecoderAttempt, RecordPage, TopicItem

router = APIRouter(prefix="/pipelines/{name}/topics", tags=["topics"])

Name = Annotated[str, Path(description="The pipeline whose cluster is meant.", examples=["orders"])]
Topic = Annotated[str, Path(description="The topic.", examples=["orders"], max_length=249)]
Partition = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only this partition.")]


@router.get("", summary="Topics of the pipeline's cluster")
def list_topics(desk: AtDesk, actor: Asking, name: Name) -> list[TopicItem]:
    return topics.list_topics(desk, actor, name)


@router.get("/{topic}/records", summary="Records of a topic, newest first")
def browse(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    topic: Topic,
    partition: Partition = None,
    start: Annotated[
        str, Query(description="`newest`, `earliest`, an offset, a time, or epoch milliseconds.", max_length=100)
    ] = "newest",
    key: Annotated[str | None, Query(description="Only records with this text in their key.", max_length=1_000)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> RecordPage:
    return topics.browse(desk, actor, name, topic, partition=partition, start=start, key=key, limit=limit)


@router.get("/{topic}/records/{partition}/{offset}/decoders", summary="What every decoder makes of one record")
def decoders(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    topic: Topic,
    partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
    offset: Annotated[int, Path(ge=0, lt=100_000_000_000)],
) -> list[DecoderAttempt]:
    return topics.decoder_report(desk, actor, name, topic, partition=partition, offset=offset)


@router.get(
    "/{topic}/tail",
    summary="The last records and then new ones, as server-sent events",
    response_class=StreamingResponse,
    responses=STREAM,
)
def tail(
    desk: AtDesk,
    actor: Asking,
    name: Name,
    topic: Topic,
    request: Request,
    seconds: Annotated[float, Query(gt=0, le=300, description="How long.")] = 30.0,
    limit: Annotated[int, Query(ge=1, le=100_000, description="How many records.")] = 1_000,
    last: Annotated[int, Query(ge=0, le=100, description="Begin with so many of each partition.")] = 10,
) -> StreamingResponse:
    following = topics.tail(desk, actor, name, topic, seconds=seconds, limit=limit, last=last)
    return streamed(actor, following, "record", lambda: topics.require_readable(desk, actor_of(request), name, topic))
