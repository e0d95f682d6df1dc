"""Logging in and out, and who one is."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.api.asking import Asking, Auth, address_of
from penstock.core.clock import format_time
from penstock.core.secrets import Secret
from penstock.service.access import RIGHTS, Actor, Role, allows_somewhere
from penstock.service.authentication import SECURE_COOKIE, SESSION_COOKIE, Authentication, LoggedIn
from penstock.service.passwords import csrf_of

router = APIRouter(prefix="/session", tags=["session"])


class Credentials(BaseModel):
    """Who logs in: a user with a password, or whoever has a token."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"user": "ada@example.org", "password": "a long sentence"}]}
    )

    user: str | None = Field(default=None, max_length=401)
    password: Secret | None = None
    token: Secret | None = Field(default=None, description="In place of user and password; the session ends with it.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        by_password = self.user is not None and self.password is not None
        if by_password == (self.token is not None) or (self.token is not None and (self.user or self.password)):
            raise ValueError("either user and password, or a token")
        return self


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
    origin = {"address": address_of(request), "agent": request.headers.get("user-agent")}
    if given.token is not None:
        begun = auth.log_in_with_token(given.token.reveal(), **origin)
    else:
        begun = auth.log_in((given.user or "").lower(), given.password.reveal() if given.password else "", **origin)
    set_cookie(auth, request, response, begun)
    return _view(begun.actor, begun.csrf, format_time(begun.expires_at))


@router.get("", summary="Who am I")
def who_am_i(auth: Auth, actor: Asking, request: Request) -> SessionView:
    session = auth.session_of(request.cookies) if "authorization" not in request.headers and auth.required else None
    return _view(actor, csrf_of(session) if session else None)


@router.delete("", status_code=204, summary="Log out")
def log_out(auth: Auth, actor: Asking, request: Request, response: Response) -> None:
    auth.log_out(auth.session_of(request.cookies), actor)
    end_cookie(response)


def set_cookie(auth: Authentication, request: Request, response: Response, begun: LoggedIn) -> None:
    """For this server's pages only, out of reach of their scripts."""
    secure = auth.is_secure(request.url.scheme)
    response.set_cookie(
        SECURE_COOKIE if secure else SESSION_COOKIE,
        begun.session,
        max_age=int(begun.seconds),
        path="/",
        httponly=True,
        samesite="lax",
        secure=secure,
    )


def end_cookie(response: Response) -> None:
    """Both: whichever the browser has."""
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="lax")
    response.delete_cookie(SECURE_COOKIE, path="/", secure=True, httponly=True, samesite="lax")


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
