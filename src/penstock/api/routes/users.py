"""People and their rights."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Response
from pydantic import BaseModel, ConfigDict

from penstock.api.asking import VERSIONED, Asking, AtDesk, Revision, etag
from penstock.core.secrets import Secret
from penstock.service.operations import users
from penstock.service.operations.users import NewUser, ProjectView, UserChange, UserView

router = APIRouter(tags=["users"])

UserId = Annotated[str, Path(description="The user's id.", max_length=100)]


class NewPassword(BaseModel):
    """Another password; one's own is changed by giving the old one too."""

    model_config = ConfigDict(extra="forbid")

    password: Secret
    old: Secret | None = None


@router.get("/users", summary="Users, by address")
def list_users(desk: AtDesk, actor: Asking) -> list[UserView]:
    return users.list_users(desk, actor)


@router.post("/users", status_code=201, summary="Let a person in")
def create_user(desk: AtDesk, actor: Asking, response: Response, new: Annotated[NewUser, Body()]) -> UserView:
    made = users.create_user(desk, actor, new)
    response.headers.update(etag(made.revision))
    return made


@router.get("/users/{user}", summary="One user")
def get_user(desk: AtDesk, actor: Asking, user: UserId, response: Response) -> UserView:
    found = users.get_user(desk, actor, user)
    response.headers.update(etag(found.revision))
    return found


@router.patch("/users/{user}", summary="Change a user; what is absent stays as it is", responses=VERSIONED)
def change_user(
    desk: AtDesk,
    actor: Asking,
    user: UserId,
    revision: Revision,
    response: Response,
    wanted: Annotated[UserChange, Body()],
) -> UserView:
    changed = users.change_user(desk, actor, user, wanted, revision)
    response.headers.update(etag(changed.revision))
    return changed


@router.delete("/users/{user}", status_code=204, summary="Remove a user, with sessions and tokens", responses=VERSIONED)
def delete_user(desk: AtDesk, actor: Asking, user: UserId, revision: Revision) -> None:
    users.delete_user(desk, actor, user, revision)


@router.put("/users/{user}/password", status_code=204, summary="Set a password; sessions end")
def set_password(desk: AtDesk, actor: Asking, user: UserId, wanted: Annotated[NewPassword, Body()]) -> None:
    users.set_password(desk, actor, user, wanted.password, wanted.old)


@router.get("/projects", summary="Projects that one has a role in")
def list_projects(desk: AtDesk, actor: Asking) -> list[ProjectView]:
    return users.list_projects(desk, actor)
