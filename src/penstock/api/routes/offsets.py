"""Offsets of pipelines' groups."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body

from penstock.api.asking import Asking, AtDesk, Name
from penstock.service.operations import offsets
from penstock.service.operations.offsets import MoveView, OffsetView, ResetRequest

router = APIRouter(prefix="/pipelines/{name}/offsets", tags=["offsets"])


@router.get("", summary="Where the group stands, as the cluster says now")
def show(desk: AtDesk, actor: Asking, name: Name) -> list[OffsetView]:
    return offsets.show(desk, actor, name)


@router.post("/preview", summary="What a reset would skip and repeat; nothing is changed")
def preview(desk: AtDesk, actor: Asking, name: Name, request: Annotated[ResetRequest, Body()]) -> list[MoveView]:
    return offsets.preview(desk, actor, name, request)


@router.post("/reset", summary="Set offsets while no instance is in the group")
def reset(desk: AtDesk, actor: Asking, name: Name, request: Annotated[ResetRequest, Body()]) -> list[MoveView]:
    return offsets.reset(desk, actor, name, request)
