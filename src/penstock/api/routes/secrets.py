"""Secrets that documents refer to by name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict

from penstock.api.asking import Asking, AtDesk
from penstock.core.secrets import Secret
from penstock.service.operations import secrets
from penstock.service.operations.secrets import SecretView

router = APIRouter(prefix="/secrets", tags=["secrets"])

Name = Annotated[
    str,
    Path(
        description="What documents call it; `PROJECT/NAME` for those of a project.",
        examples=["kafka", "health/kafka"],
        max_length=200,
    ),
]


class NewSecret(BaseModel):
    """What a name stands for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"value": "a long password"}]})

    value: Secret


@router.get("", summary="Names of the secrets; what they say is shown to nobody")
def list_secrets(desk: AtDesk, actor: Asking) -> list[SecretView]:
    return secrets.list_secrets(desk, actor)


@router.put("/{secret:path}", summary="Keep a secret, or another value of it")
def set_secret(desk: AtDesk, actor: Asking, secret: Name, new: Annotated[NewSecret, Body()]) -> SecretView:
    return secrets.set_secret(desk, actor, secret, new.value)


@router.delete("/{secret:path}", status_code=204, summary="Keep a secret no longer")
def delete_secret(desk: AtDesk, actor: Asking, secret: Name) -> None:
    secrets.delete_secret(desk, actor, secret)
