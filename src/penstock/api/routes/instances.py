"""Running instances."""

from __future__ import annotations

from fastapi import APIRouter

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import instances
from penstock.service.operations.instances import InstanceView

router = APIRouter(prefix="/instances", tags=["instances"])


@router.get("", summary="Instances heard of lately, the oldest first")
def list_instances(desk: AtDesk, actor: Asking) -> list[InstanceView]:
    return instances.list_instances(desk, actor)
