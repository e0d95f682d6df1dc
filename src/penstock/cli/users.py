"""`penstock users`: who is let in over HTTP, and what they may do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.core.secrets import Secret
    from penstock.service.access import Actor
    from penstock.service.operations.desk import Desk
    from penstock.service.operations.users import UserView

Email = Annotated[str, typer.Argument(help="The user's address.", metavar="EMAIL")]
Role = Annotated[str | None, typer.Option("--role", help="viewer, operator or admin, in the whole installation.")]
Member = Annotated[
    list[str] | None, typer.Option("--project", help="A role in a project, as NAME=ROLE; may be repeated.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Who is let in over HTTP, and what they may do.", no_args_is_help=True)
    for name, body in (
        ("list", list_users),
        ("create", create),
        ("change", change),
        ("password", password),
        ("delete", delete),
    ):
        command(group, name)(body)
    app.add_typer(group, name="users")


def list_users(terminal: Terminal) -> Exit | None:
    """List users with their roles."""
    from penstock.service.operations import users

    with at_desk() as (desk, actor):
        found = users.list_users(desk, actor)
        names = {project.id: project.name for project in desk.store.people.projects()}
    if terminal.as_json:
        terminal.data([view.model_dump() for view in found])
        return None
    if not found:
        terminal.line("there are no users yet; `penstock users create` makes one")
        return None
    rows = [
        (
            view.email,
            view.role or "",
            ", ".join(f"{names.get(project, project)}={role}" for project, role in view.projects.items()),
            "disabled" if view.disabled else "password" if view.has_password else "",
        )
        for view in found
    ]
    terminal.table(("USER", "ROLE", "PROJECTS", "LOG-IN"), rows)
    return None


def create(
    terminal: Terminal,
    email: Email,
    role: Role = None,
    project: Member = None,
    name: Annotated[str | None, typer.Option("--name", help="The person's name.")] = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="The user logs in at the OpenID provider only.")
    ] = False,
) -> Exit | None:
    """Let a person in. The password is asked for, or read from standard input."""
    from penstock.core.plugin_config import parse_config
    from penstock.service.operations import users
    from penstock.service.operations.users import NewUser

    secret = None if no_password else read_secret("password")
    with at_desk() as (desk, actor):
        given = {"email": email, "role": role, "name": name, "projects": _projects(desk, project or [])}
        new = parse_config(NewUser, given | {"password": secret}, "user")
        _tell(terminal, users.create_user(desk, actor, new), "was made")
    return None


def change(
    terminal: Terminal,
    email: Email,
    role: Annotated[str | None, typer.Option("--role", help="As above; `none`: as the projects say.")] = None,
    project: Member = None,
    disable: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Let the user in no more, or again.")
    ] = None,
) -> Exit | None:
    """Change what a user may do. --project replaces all of the user's projects."""
    from penstock.core.plugin_config import parse_config
    from penstock.service.operations import users
    from penstock.service.operations.users import UserChange

    with at_desk() as (desk, actor):
        given: dict[str, object] = {} if role is None else {"role": None if role == "none" else role}
        if project is not None:
            given["projects"] = _projects(desk, project)
        if disable is not None:
            given["disabled"] = disable
        view = users.change_user(desk, actor, _id(desk, email), parse_config(UserChange, given, "user"), None)
        _tell(terminal, view, "was changed")
    return None


def password(terminal: Terminal, email: Email) -> Exit | None:
    """Set a user's password, asked for or read from standard input. Sessions end."""
    from penstock.service.operations import users

    secret = read_secret("password")
    with at_desk() as (desk, actor):
        number = _id(desk, email)
        users.set_password(desk, actor, number, secret)
        _tell(terminal, users.get_user(desk, actor, number), "has another password")
    return None


def delete(terminal: Terminal, email: Email) -> Exit | None:
    """Remove a user, with sessions and tokens."""
    from penstock.service.operations import users

    with at_desk() as (desk, actor):
        number = _id(desk, email)
        view = users.get_user(desk, actor, number)
        users.delete_user(desk, actor, number, None)
    _tell(terminal, view, "was removed")
    return None


@contextmanager
def at_desk() -> Iterator[tuple[Desk, Actor]]:
    """The store's desk, for whoever sits at this machine."""
    from penstock.config.settings import Settings
    from penstock.service.access import system_actor
    from penstock.service.opening import opened_for_writing
    from penstock.service.operations.desk import Desk
    from penstock.service.pipelines import person

    settings = Settings.load()
    with opened_for_writing(settings) as store:
        yield Desk(store, settings), system_actor(person())


def project_id(desk: Desk, name: str) -> str:
    """The project of a name, or of an id."""
    known = desk.store.people.projects()
    for project in known:
        if name in (project.name, project.id):
            return project.id
    raise ConfigError("there is no such project", received=name, allowed=[project.name for project in known])


def _projects(desk: Desk, written: list[str]) -> dict[str, str]:
    found = {}
    for text in written:
        name, equals, role = text.rpartition("=")
        if not equals:
            raise ConfigError("a project is wanted as NAME=ROLE", received=text)
        found[project_id(desk, name)] = role
    return found


def _id(desk: Desk, email: str) -> str:
    row = desk.store.people.by_email(email.lower())
    if row is None:
        known = [user.email for user in desk.store.people.all()]
        raise ConfigError("there is no such user", received=email, allowed=known)
    return row.id


def read_secret(what: str) -> Secret:
    """Asked for at a terminal, else the first line of standard input."""
    from penstock.core.secrets import Secret

    if sys.stdin.isatty():
        return Secret(typer.prompt(what, hide_input=True, confirmation_prompt=True))
    return Secret(sys.stdin.readline().rstrip("\r\n"))


def _tell(terminal: Terminal, view: UserView, what: str) -> None:
    if terminal.as_json:
        terminal.data(view.model_dump())
    else:
        terminal.line(f"{view.email} {what}")
