"""People: who they are, what they may do, and how they log in."""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator

from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError, PenstockError, Terminal
from penstock.core.secrets import Secret
from penstock.service.access import Actor, NotAllowed, NotFound, Role, member_role, require
from penstock.service.attempts import Attempts, user_key
from penstock.service.audit import audited
from penstock.service.authentication import logs_in_elsewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.service.passwords import hash_password, verify_password
from penstock.store import PersonRow

_EMAIL: Final = re.compile(r"[^@\s]{1,200}@[^@\s]{1,200}")


class LastAdmin(PenstockError, Terminal):
    """Nobody would be left who could change that again."""

    code = "last_admin"


class UserView(View):
    """One person."""

    id: str
    email: str
    name: str | None = None
    role: Role | None = None
    """In the whole instance; null: only what the projects say."""
    projects: dict[str, Role] = Field(default_factory=dict)
    """Role by project id."""
    disabled: bool = False
    has_password: bool = False
    single_sign_on: bool = False
    """Has logged in at the OpenID provider."""
    revision: int
    """The ETag of changes."""

    @classmethod
    def of(cls, row: PersonRow) -> UserView:
        return cls(
            id=row.id,
            email=row.email,
            name=row.name,
            role=member_role(row.role) if row.role else None,
            projects={project: member_role(role) for project, role in row.projects.items()},
            disabled=row.disabled_at is not None,
            has_password=row.has_password,
            single_sign_on=row.subject is not None,
            revision=row.revision,
        )


class ProjectView(View):
    id: str
    name: str


class UserChange(BaseModel):
    """What is absent stays as it is."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str | None = Field(default=None, max_length=200)
    role: Role | None = None
    projects: dict[str, Role] | None = None
    disabled: bool | None = None


class NewUser(BaseModel):
    """A person to let in."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [{"email": "ada@example.org", "role": "operator", "password": "a long sentence"}]
        },
    )

    email: str = Field(max_length=401)
    name: str | None = Field(default=None, max_length=200)
    role: Role | None = None
    projects: dict[str, Role] = Field(default_factory=dict)
    password: Secret | None = None
    """Absent: logs in at the OpenID provider."""

    @field_validator("email")
    @classmethod
    def _address(cls, email: str) -> str:
        if not _EMAIL.fullmatch(email) or not email.isprintable():
            raise ValueError("an address like ada@example.org is wanted")
        return email.lower()


def list_users(desk: Desk, actor: Actor) -> list[UserView]:
    """By address."""
    require(actor, "users.manage")
    return [UserView.of(row) for row in desk.store.people.all()]


def list_projects(desk: Desk, actor: Actor) -> list[ProjectView]:
    """Those that the actor has a role in."""
    return [
        ProjectView(id=row.id, name=row.name)
        for row in desk.store.people.projects()
        if actor.role_in(row.id) is not None
    ]


def get_user(desk: Desk, actor: Actor, user_id: str) -> UserView:
    require(actor, "users.manage")
    return UserView.of(_user(desk, user_id))


def create_user(desk: Desk, actor: Actor, new: NewUser) -> UserView:
    """`Taken` where the address is another one's."""
    require(actor, "users.manage")
    _known_projects(desk, new.projects)
    if new.password is not None:
        _require_passwords(desk)
    password = hash_password(new.password.reveal()) if new.password else None
    with audited(desk.store, actor, "users.create", f"user/{new.email}") as change:
        row = desk.store.people.create(
            new.email, name=new.name, role=new.role, password=password, projects=dict(new.projects)
        )
        change.after = _kept(row)
    return UserView.of(row)


def change_user(desk: Desk, actor: Actor, user_id: str, wanted: UserChange, revision: int | None) -> UserView:
    """`Changed` where the user's revision is not this one."""
    require(actor, "users.manage")
    row = _user(desk, user_id)
    given = wanted.model_fields_set
    values: dict[str, Any] = {name: getattr(wanted, name) for name in ("name", "role") if name in given}
    if wanted.disabled is not None:
        values["disabled_at"] = SYSTEM.now_ms() if wanted.disabled else None
    if wanted.projects is not None:
        _known_projects(desk, wanted.projects)
    if wanted.disabled or ("role" in given and wanted.role != "admin"):
        _keep_an_admin(desk, row)
    with audited(desk.store, actor, "users.change", f"user/{row.email}", before=_kept(row)) as change:
        projects = dict(wanted.projects) if wanted.projects is not None else None
        row = desk.store.people.change(row.id, revision, projects=projects, **values)
        change.after = _kept(row)
    return UserView.of(row)


def set_password(desk: Desk, actor: Actor, user_id: str, password: Secret, old: Secret | None = None) -> None:
    """One's own by giving the old one, or anybody's as an admin. Sessions end. Whom the OpenID provider vouches for has
    none: it would let them in after they are gone there."""
    user_id = known_id(user_id, "user")
    own = actor.kind == "person" and actor.user_id == user_id
    if not own:
        require(actor, "users.manage")
    row = _user(desk, user_id)
    _require_passwords(desk, row)
    if own:
        _require_password(desk, row.email, row.password, old)
    hashed = hash_password(password.reveal())
    with audited(desk.store, actor, "users.password", f"user/{row.email}"):
        desk.store.people.change(row.id, None, password=hashed)


def delete_user(desk: Desk, actor: Actor, user_id: str, revision: int | None) -> None:
    """With sessions and tokens."""
    require(actor, "users.manage")
    row = _user(desk, user_id)
    _keep_an_admin(desk, row)
    with audited(desk.store, actor, "users.delete", f"user/{row.email}", before=_kept(row)):
        desk.store.people.delete(row.id, revision)


def known_id(written: str, what: str) -> str:
    """An id as databases take it; `NotFound` where it cannot be one."""
    try:
        return str(UUID(written))
    except ValueError:
        raise NotFound(f"no such {what}", received=written[:100]) from None


def _user(desk: Desk, user_id: str) -> PersonRow:
    row = desk.store.people.get(known_id(user_id, "user"))
    if row is None:
        raise NotFound("no such user", received=user_id)
    return row


def _require_passwords(desk: Desk, user: PersonRow | None = None) -> None:
    """Raise `NotAllowed` where a password would be of no use, or more than the user should have."""
    if not desk.settings.http.passwords:
        raise NotAllowed("passwords are not taken here: http.passwords is false", hint="log in at the OpenID provider")
    if user is not None and logs_in_elsewhere(user, desk.settings.http):
        raise NotAllowed(
            f"{user.email} logs in at the OpenID provider, and has no password here", hint="change it at the provider"
        )


def _require_password(desk: Desk, email: str, known: str | None, given: Secret | None) -> None:
    """As hard to guess for who found a session as it is for who logs in."""
    attempts = Attempts(desk.store.failed_logins, desk.settings.http.attempts)
    with attempts.counted(user_key(email)) as attempt:
        attempt.succeeded = verify_password(known, given.reveal() if given else "")
    if not attempt.succeeded:
        raise ConfigError("the old password is wrong")


def _known_projects(desk: Desk, projects: dict[str, Role]) -> None:
    known = {row.id for row in desk.store.people.projects()}
    for project in projects:
        if project not in known:
            raise ConfigError("there is no such project", received=project[:100])


def _keep_an_admin(desk: Desk, leaving: PersonRow) -> None:
    others = [row for row in desk.store.people.all() if row.id != leaving.id]
    admins = [row for row in others if row.role == "admin" and row.disabled_at is None]
    tokens = [row for row in desk.store.tokens.all() if row.user_id is None and row.role == "admin"]
    good = [row for row in tokens if row.project_id is None and row.revoked_at is None and not row.expired]
    if leaving.role == "admin" and not admins and not good:
        raise LastAdmin(f"{leaving.email} is the last admin", hint="make another one first")


def _kept(row: PersonRow) -> str:
    return orjson.dumps(UserView.of(row).model_dump(exclude={"id", "revision"})).decode()
