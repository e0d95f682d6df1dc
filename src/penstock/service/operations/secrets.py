"""Named secrets, which documents refer to as `{$ref: NAME}`: kept encrypted, and shown to nobody."""

from __future__ import annotations

from penstock.core.errors import ConfigError
from penstock.core.secrets import Secret
from penstock.service.access import Actor, NotFound, allows, require, require_somewhere
from penstock.service.audit import audited
from penstock.service.operations.desk import Desk
from penstock.service.operations.models import View
from penstock.service.secrets import SecretBox, owner_of

_MOST = 20_000
"""Characters of one: certificates with their keys are some thousand."""


class SecretView(View):
    """A secret, of which only the name is told."""

    name: str


def list_secrets(desk: Desk, actor: Actor) -> list[SecretView]:
    """By name; those of projects for their admins."""
    require_somewhere(actor, "secrets.manage")
    names = desk.store.secrets.names()
    mine = {owner for owner in map(owner_of, names) if allows(actor, "secrets.manage", _project(desk, owner))}
    return [SecretView(name=name) for name in names if owner_of(name) in mine]


def set_secret(desk: Desk, actor: Actor, name: str, value: Secret) -> SecretView:
    """Keep one, or another value of it: pipelines that refer to it begin anew with that, within seconds. One that is
    called `PROJECT/NAME` is for the documents of that project."""
    owner, project = owner_of(name), _project(desk, owner_of(name))
    require(actor, "secrets.manage", project)
    if "/" in name and project is None:
        raise ConfigError("there is no such project", received=owner, hint="a name with a '/' is PROJECT/NAME")
    if not name.rpartition("/")[2].strip() or not name.isprintable():
        raise ConfigError("a secret wants a name that can be read", received=name)
    text = value.reveal()
    if not text or len(text) > _MOST:
        raise ConfigError(f"a secret has between 1 and {_MOST:,} characters", received=f"{len(text):,} characters")
    with audited(desk.store, actor, "secrets.set", f"secret/{name}", project=project):
        SecretBox.of(desk.store, desk.settings).set_named(name, text)
    return SecretView(name=name)


def delete_secret(desk: Desk, actor: Actor, name: str) -> None:
    """Documents that refer to it cannot be used any more."""
    project = _project(desk, owner_of(name))
    require(actor, "secrets.manage", project)
    if name not in desk.store.secrets.names():
        raise NotFound("no such secret", received=name, hint="GET /api/v1/secrets lists them")
    with audited(desk.store, actor, "secrets.delete", f"secret/{name}", project=project):
        desk.store.secrets.delete(name)


def _project(desk: Desk, owner: str) -> str | None:
    """The id of the project that a secret is for; None: there is none."""
    found = desk.store.projects.get(owner) if owner else None
    return found.id if found is not None and found.name == owner else None
