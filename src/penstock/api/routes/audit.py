"""The record of changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import audit
from penstock.service.operations.audit import AuditEntry, AuditQuery
from penstock.service.operations.paging import Page

router = APIRouter(prefix="/audit", tags=["audit"])


class ListQuery(AuditQuery):
    """Which changes, and which page of them."""

    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = Field(default=None, max_length=2_000, description="`next` of the page before.")


@router.get("", summary="Who changed what, newest first")
def list_audit(desk: AtDesk, actor: Asking, query: Annotated[ListQuery, Query()]) -> Page[AuditEntry]:
    only = AuditQuery(**query.model_dump(exclude={"limit", "after"}))
    return audit.list_audit(desk, actor, only, limit=query.limit, after=query.after)
