"""Logging in and out, and who one is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.api.asking import Asking, Auth, address_of
from penstock.core.clock import format_time
from penstock.core.secrets import Secret
from penstock.service.access import RIGHTS, Actor, Role, allows_somewhere
from penstock.service.authentication import SESSION_COOKIE, LoggedIn
from penstock.service.passwords import csrf_of

router = APIRouter(prefix="/session", tags=["session"])


class Credentials(BaseModel):
    """Who logs in."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"user": "ada@example.org", "password": "a long sentence"}]}
    )

    user: str = Field(max_length=401)
    password: Secret


class SessionView(BaseModel):
    """Who one is, and may do."""

    name: str
    kind: str
    role: Role | None = None
    projects: dict[str, Role] = Field(default_factory=dict)
    rights: list[str] = Field(default_factory=list, description="Rights that one has, at least in some project.")
    csrf: str | None = Field(default=None, description="To be sent as X-CSRF-Token with changes by a browser.")
    expires_at: str | None = None


@router.post("", summary="Log in; sets the session's cookie", openapi_extra={"security": []})
def log_in(auth: Auth, request: Request, response: Response, given: Annotated[Credentials, Body()]) -> SessionView:
    agent = request.headers.get("user-agent")
    begun = auth.log_in(given.user.lower(), given.password.reveal(), address=address_of(request), agent=agent)
    set_cookie(request, response, begun)
    return _view(begun.actor, begun.csrf, format_time(begun.expires_at))


@router.get("", summary="Who am I")
def who_am_i(actor: Asking, request: Request) -> SessionView:
    session = request.cookies.get(SESSION_COOKIE)
    return _view(actor, csrf_of(session) if session and actor.kind == "person" else None)


@router.delete("", status_code=204, summary="Log out")
def log_out(auth: Auth, _: Asking, request: Request, response: Response) -> None:
    auth.log_out(request.cookies.get(SESSION_COOKIE))
    response.delete_cookie(SESSION_COOKIE, path="/")


def set_cookie(request: Request, response: Response, begun: LoggedIn) -> None:
    """For this server's pages only, out of reach of their scripts."""
    response.set_cookie(
        SESSION_COOKIE,
        begun.session,
        max_age=int(begun.seconds),
        path="/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def _view(actor: Actor, csrf: str | None, expires_at: str | None = None) -> SessionView:
    return SessionView(
        name=actor.name,
        kind=actor.kind,
        role=actor.role,
        projects=dict(actor.projects),
        rights=[right for right in RIGHTS if allows_somewhere(actor, right)],
        csrf=csrf,
        expires_at=expires_at,
    )
