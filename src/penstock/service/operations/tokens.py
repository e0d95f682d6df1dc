"""Tokens, by which programs are let in."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from penstock.core.clock import SYSTEM, format_time
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError
from penstock.service.access import ROLES, Actor, NotAllowed, NotFound, Role, allows, member_role, require_somewhere
from penstock.service.audit import audited
from penstock.service.authentication import logs_in_elsewhere
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import Text, View
from penstock.service.operations.users import known_id
from penstock.service.passwords import SHOWN, TOKEN_PREFIX, digest, new_key
from penstock.store import TokenRow


class TokenView(View):
    """What is known of a token; its text is shown once, when it is made."""

    id: str
    name: str
    prefix: str
    """What it begins with."""
    role: Role
    project: str | None = None
    """Id of the project it is for; null: all that its user may see."""
    user: str | None = None
    """Id of the user whose rights bound it."""
    created_by: str
    created_at: str
    expires_at: str | None = None
    used_at: str | None = None
    """To the minute."""
    revoked: bool = False
    expired: bool = False

    @classmethod
    def of(cls, row: TokenRow) -> TokenView:
        return cls(
            id=row.id,
            name=row.name,
            prefix=row.prefix,
            role=member_role(row.role),
            project=row.project_id,
            user=row.user_id,
            created_by=row.created_by,
            created_at=format_time(row.created_at),
            expires_at=None if row.expires_at is None else format_time(row.expires_at),
            used_at=None if row.used_at is None else format_time(row.used_at),
            revoked=row.revoked_at is not None,
            expired=row.expired,
        )


class MadeToken(TokenView):
    """A token that was just made."""

    token: str
    """Its text: keep it, it is not shown again."""


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"name": "ci", "role": "operator", "expires_in": "90d"}]},
    )

    name: str = Field(min_length=1, max_length=100)
    role: Role
    """At most its maker's own."""
    project: Text | None = None
    expires_in: Duration | None = Field(default=None, gt=0, le=10 * 366 * 86_400)
    """Such as `90d`; absent: until it is revoked, or for as long as its maker lets it."""


def list_tokens(desk: Desk, actor: Actor) -> list[TokenView]:
    """One's own; all of them for admins. Newest first."""
    require_somewhere(actor, "tokens.own")
    if allows(actor, "tokens.manage"):
        rows = desk.store.tokens.all()
    else:
        rows = desk.store.tokens.all(actor.user_id) if actor.user_id else []
    return [TokenView.of(row) for row in rows]


def create_token(desk: Desk, actor: Actor, new: NewToken) -> MadeToken:
    """Bounded by its maker's rights, now and whenever it is used. Only an admin's token makes others, which end with it
    at the latest; those of people who log in at the OpenID provider end after `oidc.token_age`."""
    require_somewhere(actor, "tokens.own")
    if actor.kind == "token" and not allows(actor, "tokens.manage"):
        raise NotAllowed("a token makes no tokens", hint="log in as a person")
    project = known_id(new.project, "project") if new.project is not None else None
    own = actor.role_in(project)
    if own is None or ROLES.index(own) < ROLES.index(new.role):
        raise NotAllowed(f"a token's role is at most its maker's, {own or 'none'}", received=new.role)
    if project is not None and project not in {row.id for row in desk.store.people.projects()}:
        raise ConfigError("there is no such project", received=new.project)
    longest = _longest(desk, actor)
    if longest is not None and new.expires_in is not None and new.expires_in > longest:
        raise NotAllowed(
            "the token would outlive what makes it", received=f"{new.expires_in:g} s", allowed=f"{longest:g} s"
        )
    key = new_key(TOKEN_PREFIX)
    data = {"role": new.role, "expires_in": new.expires_in}
    with audited(desk.store, actor, "tokens.create", f"token/{new.name}", project=project, data=data) as change:
        row = desk.store.tokens.create(
            new.name,
            digest(key),
            key[:SHOWN],
            role=new.role,
            by=actor.name,
            user_id=actor.user_id,
            project_id=project,
            seconds=longest if new.expires_in is None else new.expires_in,
            until=actor.expires_at,
            parent_id=actor.token_id,
        )
        change.data["id"] = row.id
    return MadeToken(**TokenView.of(row).model_dump(), token=key)


def _longest(desk: Desk, actor: Actor) -> float | None:
    """Seconds that a token of this maker may last; None: until it is revoked."""
    user = desk.store.people.get(actor.user_id) if actor.user_id else None
    bounds = [desk.settings.oidc.token_age] if user and logs_in_elsewhere(user, desk.settings.http) else []
    bounds += [] if actor.expires_at is None else [max(0.0, (actor.expires_at - SYSTEM.now_ms()) / 1000)]
    return min(bounds, default=None)


def revoke_token(desk: Desk, actor: Actor, token_id: str) -> None:
    """One's own, or any as an admin; nobody is let in by it any more, nor by those that it made."""
    require_somewhere(actor, "tokens.own")
    row = desk.store.tokens.get(known_id(token_id, "token"))
    mine = row is not None and row.user_id is not None and row.user_id == actor.user_id
    if row is None or not (mine or allows(actor, "tokens.manage")):
        raise NotFound("no such token", received=token_id)
    with audited(desk.store, actor, "tokens.revoke", f"token/{row.name}", project=row.project_id, data={"id": row.id}):
        desk.store.tokens.revoke(row.id)
