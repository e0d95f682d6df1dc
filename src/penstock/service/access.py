"""Who acts, and what they may do. Every operation asks here first, whichever face it came through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from penstock.core.errors import PenstockError, Terminal

Role = Literal["viewer", "operator", "admin"]
Kind = Literal["person", "token", "system"]
Right = Literal[
    "pipelines.view",
    "pipelines.operate",
    "pipelines.edit",
    "offsets.view",
    "offsets.reset",
    "dead_letters.view",
    "dead_letters.operate",
    "topics.view",
    "plugins.view",
    "instances.view",
    "notices.view",
    "workflows.view",
    "workflows.operate",
    "workflows.edit",
    "triggers.view",
    "triggers.edit",
    "triggers.test",
    "work_orders.view",
    "work_orders.operate",
    "events.reveal",
    "audit.view",
    "users.manage",
    "tokens.own",
    "tokens.manage",
    "secrets.manage",
]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""From the least to the most."""
RIGHTS: Final[dict[Right, Role]] = {
    "pipelines.view": "viewer",
    "pipelines.operate": "operator",
    "pipelines.edit": "operator",
    "offsets.view": "viewer",
    "offsets.reset": "operator",
    "dead_letters.view": "viewer",
    "dead_letters.operate": "operator",
    "topics.view": "viewer",
    "plugins.view": "viewer",
    "instances.view": "viewer",
    "notices.view": "viewer",
    "workflows.view": "viewer",
    "workflows.operate": "operator",
    "workflows.edit": "operator",
    "triggers.view": "viewer",
    "triggers.edit": "operator",
    "triggers.test": "operator",
    "work_orders.view": "viewer",
    "work_orders.operate": "operator",
    "events.reveal": "admin",
    "audit.view": "admin",
    "users.manage": "admin",
    "tokens.own": "viewer",
    "tokens.manage": "admin",
    "secrets.manage": "admin",
}
"""The least role that has each right."""
_MEMBERS: Final[dict[str, Role]] = {
    "owner": "admin",
    "admin": "admin",
    "editor": "operator",
    "operator": "operator",
    "viewer": "viewer",
}
"""Roles of members of projects, Lightning's among them."""


class NotAllowed(PenstockError, Terminal):
    """Whoever asks may not do that."""

    code = "forbidden"


class NotFound(PenstockError, Terminal):
    """There is no such thing, or none that whoever asks may know of."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts."""

    name: str
    role: Role | None = None
    """In the whole instance; None: only what the projects say."""
    projects: Mapping[str, Role] = field(default_factory=dict)
    """Role by project id."""
    kind: Kind = "person"
    address: str | None = None
    """Where the request came from."""
    user_id: str | None = None
    token_id: str | None = None
    """The token that lets in, if one does."""
    expires_at: int | None = None
    """When that token ends, epoch milliseconds; None: when it is revoked."""

    def role_in(self, project: str | None) -> Role | None:
        """The stronger of the role everywhere and the one in the project."""
        own = self.projects.get(project) if project is not None else None
        known = [role for role in (self.role, own) if role is not None]
        return max(known, key=ROLES.index, default=None)


def system_actor(name: str, address: str | None = None) -> Actor:
    """The command line, and everybody on this machine where no log-in is asked for."""
    return Actor(name=name, role="admin", kind="system", address=address)


def member_role(role: str) -> Role:
    """What a membership's role lets its holder do; one that is not known lets look."""
    return _MEMBERS.get(role, "viewer")


def at_most(role: Role | None, limit: Role) -> Role | None:
    """The weaker of two roles."""
    return None if role is None else min(role, limit, key=ROLES.index)


def allows(actor: Actor, right: Right, project: str | None = None) -> bool:
    """Whether the actor has the right, in the project if one is given."""
    role = actor.role_in(project)
    return role is not None and ROLES.index(role) >= ROLES.index(RIGHTS[right])


def allows_somewhere(actor: Actor, right: Right) -> bool:
    """Whether there may be something that the actor has the right to."""
    return allows(actor, right) or any(allows(actor, right, project) for project in actor.projects)


def require(actor: Actor, right: Right, project: str | None = None) -> None:
    """Raise `NotAllowed` unless the actor has the right."""
    if not allows(actor, right, project):
        raise _refused(actor, right, actor.role_in(project))


def require_somewhere(actor: Actor, right: Right) -> None:
    """For lists: what is shown is then chosen by project."""
    if not allows_somewhere(actor, right):
        raise _refused(actor, right, actor.role)


def _refused(actor: Actor, right: Right, role: Role | None) -> NotAllowed:
    return NotAllowed(
        f"{actor.name} may not do this: it takes the role {RIGHTS[right]}",
        received=role or "none",
        allowed=[each for each in ROLES if ROLES.index(each) >= ROLES.index(RIGHTS[right])],
        hint="ask an admin for another role",
    )
