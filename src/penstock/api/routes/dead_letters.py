"""Dead letters, and the jobs that replay and discard many of them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import dead_letters
from penstock.service.operations.letter_models import (
    FacetsView,
    JobView,
    LetterChoice,
    LetterDetail,
    LetterItem,
    LetterQuery,
    PlanView,
)
from penstock.service.operations.paging import Page
from penstock.service.replay import Edit

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])


class ListQuery(LetterQuery):
    """Which letters, and which page of them."""

    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = Field(default=None, max_length=2_000, description="`next` of the page before.")

    def only(self) -> LetterQuery:
        return LetterQuery(**self.model_dump(exclude={"limit", "after"}))


class NewValue(BaseModel):
    """The value to replay instead: `text`, `base64`, or neither for null."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": '{"total": 12.5}'}]})

    text: str | None = None
    base64: str | None = None

    @model_validator(mode="after")
    def _one(self) -> NewValue:
        if self.text is not None and self.base64 is not None:
            raise ValueError("text or base64 is wanted, not both")
        self.bytes()
        return self

    def bytes(self) -> bytes | None:
        if self.base64 is not None:
            try:
                return base64.b64decode(self.base64, validate=True)
            except (binascii.Error, ValueError) as error:
                raise ValueError(f"base64: {error}") from None
        return None if self.text is None else self.text.encode()


class Reason(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "test data"}]})

    reason: str = Field(min_length=1, max_length=1_000)


class ReplayRequest(LetterChoice):
    dry_run: bool = Field(default=False, description="Only say what would be taken.")
    rate: float | None = Field(default=None, gt=0, le=1e9, description="Events per second at most.")

    def choice(self) -> LetterChoice:
        return LetterChoice(ids=self.ids, filter=self.filter)


class DiscardRequest(LetterChoice):
    dry_run: bool = Field(default=False, description="Only say what would be closed.")
    reason: str = Field(default="", max_length=1_000)

    def choice(self) -> LetterChoice:
        return LetterChoice(ids=self.ids, filter=self.filter)


LetterId = Annotated[int, Path(description="The letter's id.", ge=1, lt=2**62)]
JobId = Annotated[str, Path(description="The job's id, as `replay-019a…`.", max_length=50)]


@router.get("", summary="List dead letters, newest first")
def list_letters(desk: AtDesk, actor: Asking, query: Annotated[ListQuery, Query()]) -> Page[LetterItem]:
    return dead_letters.list_letters(desk, actor, query.only(), limit=query.limit, after=query.after)


@router.get("/facets", summary="How dead letters spread over pipelines, topics, stages and errors")
def facets(desk: AtDesk, actor: Asking, query: Annotated[LetterQuery, Query()]) -> FacetsView:
    return dead_letters.facets(desk, actor, query)


@router.get("/jobs", summary="Replays and discards, newest first")
def jobs(desk: AtDesk, actor: Asking) -> list[JobView]:
    return dead_letters.jobs(desk, actor)


@router.post("/replay", status_code=202, summary="Replay many letters in the background")
def replay_many(desk: AtDesk, actor: Asking, request: Annotated[ReplayRequest, Body()]) -> JobView | PlanView:
    if request.dry_run:
        return dead_letters.plan_replay(desk, actor, request.choice())
    return dead_letters.replay(desk, actor, request.choice(), rate=request.rate)


@router.post("/discard", status_code=202, summary="Close many letters in the background")
def discard_many(desk: AtDesk, actor: Asking, request: Annotated[DiscardRequest, Body()]) -> JobView | PlanView:
    if request.dry_run:
        return dead_letters.plan_discard(desk, actor, request.choice())
    return dead_letters.discard(desk, actor, request.choice(), request.reason)


@router.get("/jobs/{job}", summary="How far a job has come")
def get_job(desk: AtDesk, actor: Asking, job: JobId) -> JobView:
    return dead_letters.job(desk, actor, job)


@router.post("/jobs/{job}/stop", summary="Let a job end early, in good order")
def stop_job(desk: AtDesk, actor: Asking, job: JobId) -> JobView:
    return dead_letters.stop_job(desk, actor, job)


@router.get("/{letter}", summary="A letter with its bytes and history")
def get_letter(
    desk: AtDesk,
    actor: Asking,
    letter: LetterId,
    reveal: Annotated[bool, Query(description="Show what rules mask; for admins, and written down.")] = False,
) -> LetterDetail:
    return dead_letters.get_letter(desk, actor, letter, reveal=reveal)


@router.post("/{letter}/replay", status_code=202, summary="Replay a letter, as it is or with another value")
def replay(desk: AtDesk, actor: Asking, letter: LetterId, value: Annotated[NewValue | None, Body()] = None) -> JobView:
    edit = None if value is None else Edit(value.bytes())
    return dead_letters.replay(desk, actor, LetterChoice(ids=[letter]), edit=edit)


@router.post("/{letter}/discard", status_code=202, summary="Close a letter without a replay")
def discard(desk: AtDesk, actor: Asking, letter: LetterId, why: Annotated[Reason, Body()]) -> JobView:
    return dead_letters.discard(desk, actor, LetterChoice(ids=[letter]), why.reason)
