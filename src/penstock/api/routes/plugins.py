"""Plug-ins, and JSON Schemas for forms and editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import plugins
from penstock.service.operations.plugins import PluginDetail, PluginItem

router = APIRouter(tags=["plug-ins"])

Kind = Literal["source", "filter", "transform", "action", "processor"]


@router.get("/plugins", summary="Plug-ins that this installation knows")
def list_plugins(desk: AtDesk, actor: Asking, kind: Kind | None = None) -> list[PluginItem]:
    return plugins.list_plugins(desk, actor, kind=kind)


@router.get("/plugins/{kind}/{plugin}", summary="A plug-in with the JSON Schema of its configuration")
def get_plugin(
    desk: AtDesk, actor: Asking, kind: Kind, plugin: Annotated[str, Path(max_length=200, examples=["webhook"])]
) -> PluginDetail:
    return plugins.get_plugin(desk, actor, kind, plugin)


@router.get("/schemas/pipeline", summary="JSON Schema of pipeline documents")
def pipeline_schema(desk: AtDesk, actor: Asking) -> dict[str, Any]:
    return plugins.pipeline_schema(desk, actor)
