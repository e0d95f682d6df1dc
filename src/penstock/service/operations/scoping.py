"""Whose projects a question is about: what belongs to others is as if it were not there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock.core.errors import ConfigError
from penstock.service.access import Actor, NotAllowed, NotFound, Right, allows, require, require_somewhere
from penstock.service.operations.desk import Desk
from penstock.service.refusals import Limits
from penstock.store.work.model import ProjectRow


def chosen_project(desk: Desk, actor: Actor, right: Right, named: str | None) -> ProjectRow | None:
    """The project by its name or id, or the only one that the actor has a role in; None: all, for those whose role
    holds everywhere."""
    require_somewhere(actor, right)
    if named is None and allows(actor, right):
        return None
    mine = [project for project in actor.projects if allows(actor, right, project)]
    if named is None and len(mine) > 1:
        raise ConfigError("which project? Your role holds for some of them only", hint="give `project`")
    found = desk.store.projects.get(mine[0] if named is None else named)
    if found is None or actor.role_in(found.id) is None:
        raise NotFound("no such project", received=named, hint="GET /api/v1/projects lists them")
    require(actor, right, found.id)
    return found


def limits_of(desk: Desk, actor: Actor, right: Right, project: str | None = None) -> Limits:
    """What the actor may name: what reaches the machine itself is for admins of the instance, not of a project."""
    admin = actor.role == "admin" and allows(actor, right, project)
    allowed = frozenset(desk.settings.api.allow) if admin else frozenset[str]()
    owners, known = _owners(desk, actor, right, project), frozenset(desk.store.secrets.names())
    return Limits(allowed, desk.outbound(), os.environ, desk.named_secrets, owners, known)


def _owners(desk: Desk, actor: Actor, right: Right, project: str | None) -> frozenset[str] | None:
    """Names of the projects whose secrets the actor may refer to; None: anybody's."""
    if allows(actor, right):
        return None
    mine = [each for each in actor.projects if allows(actor, right, each) and project in (None, each)]
    return frozenset(row.name for each in mine if (row := desk.store.projects.get(each)) is not None)


def require_readable(desk: Desk, actor: Actor, *subscriptions: Sequence[str]) -> None:
    """Raise `NotAllowed` where one of these topics has masked fields and the actor may not reveal them: what reads the
    topic could copy it to where no rule applies. Topics are nobody's project, so the role must hold everywhere. A
    pattern, which begins with `^`, may match any topic."""
    if not desk.masking.has_rules or allows(actor, "events.reveal"):
        return
    for topic in (topic for topics in subscriptions for topic in topics):
        if topic.startswith("^") or desk.masking.applies(topic):
            raise NotAllowed(
                "rules mask fields of what it reads; only who may reveal them may change what reads it",
                received=topic,
                allowed=["admin"],
                hint="ask an admin of the installation",
            )


def instance_name(actor: Actor, instance: str) -> str:
    """An instance's id has its host and process in it, which are for those whose role holds everywhere."""
    return instance if allows(actor, "instances.view") else instance.rpartition("-")[2]


def require_of(actor: Actor, view: Right, right: Right, project: str, missing: NotFound) -> None:
    """Raise `missing` where the actor may not even see the project's things, `NotAllowed` where they may only look."""
    if not allows(actor, view, project):
        raise missing
    require(actor, right, project)
