"""`penstock tokens`: what programs are let in by over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.cli.users import at_desk, project_id


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What programs are let in by over HTTP.", no_args_is_help=True)
    for name, body in (("list", list_tokens), ("create", create), ("revoke", revoke)):
        command(group, name)(body)
    app.add_typer(group, name="tokens")


def list_tokens(terminal: Terminal) -> Exit | None:
    """List tokens, newest first; their texts are not known."""
    from penstock.service.operations import tokens

    with at_desk() as (desk, actor):
        found = tokens.list_tokens(desk, actor)
    if terminal.as_json:
        terminal.data([view.model_dump() for view in found])
        return None
    columns = ("ID", "NAME", "BEGINS WITH", "ROLE", "MADE BY", "EXPIRES", "USED", "STATE")
    rows = [
        (
            view.id,
            view.name,
            view.prefix,
            view.role,
            view.created_by,
            view.expires_at or "never",
            view.used_at or "never",
            "revoked" if view.revoked else "expired" if view.expired else "good",
        )
        for view in found
    ]
    terminal.table(columns, rows)
    return None


def create(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(help="What it is for.", metavar="NAME")],
    role: Annotated[str, typer.Option("--role", help="viewer, operator or admin.")] = "viewer",
    project: Annotated[str | None, typer.Option("--project", help="Only for this project.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="After this time, such as 90d.")] = None,
) -> Exit | None:
    """Make a token and print it, this once."""
    from penstock.core.plugin_config import parse_config
    from penstock.service.operations import tokens
    from penstock.service.operations.tokens import NewToken

    with at_desk() as (desk, actor):
        mine = project_id(desk, project) if project is not None else None
        given = {"name": name, "role": role, "project": mine, "expires_in": expires}
        made = tokens.create_token(desk, actor, parse_config(NewToken, given, "token"))
    if terminal.as_json:
        terminal.data(made.model_dump())
    else:
        terminal.line(made.token)
        terminal.note("keep it: it is not shown again")
    return None


def revoke(
    terminal: Terminal, token: Annotated[str, typer.Argument(help="Its id, as the list shows it.", metavar="ID")]
) -> Exit | None:
    """Let nobody in by a token any more."""
    from penstock.service.operations import tokens

    with at_desk() as (desk, actor):
        tokens.revoke_token(desk, actor, token)
    if terminal.as_json:
        terminal.data({"id": token, "revoked": True})
    else:
        terminal.line(f"{token} was revoked")
    return None
