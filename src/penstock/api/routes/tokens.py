"""Tokens for programs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path

from penstock.api.asking import Asking, AtDesk
from penstock.service.operations import tokens
from penstock.service.operations.tokens import MadeToken, NewToken, TokenView

router = APIRouter(prefix="/tokens", tags=["tokens"])


@router.get("", summary="One's own tokens; all of them for admins")
def list_tokens(desk: AtDesk, actor: Asking) -> list[TokenView]:
    return tokens.list_tokens(desk, actor)


@router.post("", status_code=201, summary="Make a token; its text is shown this once")
def create_token(desk: AtDesk, actor: Asking, new: Annotated[NewToken, Body()]) -> MadeToken:
    return tokens.create_token(desk, actor, new)


@router.delete("/{token}", status_code=204, summary="Let nobody in by it any more")
def revoke_token(desk: AtDesk, actor: Asking, token: Annotated[str, Path(max_length=100)]) -> None:
    tokens.revoke_token(desk, actor, token)
