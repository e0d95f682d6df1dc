"""Notices to the admins of projects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from penstock.api.asking import After, Asking, AtDesk, Limit
from penstock.service.operations import notices
from penstock.service.operations.notices import NoticeState, NoticeView
from penstock.service.operations.paging import Page

router = APIRouter(prefix="/notices", tags=["notices"])

Project = Annotated[str | None, Query(description="Id of a project.", max_length=100)]


@router.get("", summary="What admins were told of messages that were not stored, newest first")
def list_notices(
    desk: AtDesk, actor: Asking, project: Project = None, limit: Limit = 100, after: After = None
) -> Page[NoticeView]:
    return notices.list_notices(desk, actor, project=project, limit=limit, after=after)


@router.get("/pending", summary="What has gathered for the next notices, and when they may go out")
def pending(desk: AtDesk, actor: Asking, project: Project = None) -> list[NoticeState]:
    return notices.pending(desk, actor, project=project)
