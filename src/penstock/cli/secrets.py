"""`penstock secrets`: what documents refer to by name."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.cli.users import at_desk, read_secret

Name = Annotated[str, typer.Argument(help="What documents call it: {$ref: NAME}.", metavar="NAME")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Secrets that documents refer to by name.", no_args_is_help=True)
    for name, body in (("list", list_secrets), ("set", set_secret), ("delete", delete)):
        command(group, name)(body)
    app.add_typer(group, name="secrets")


def list_secrets(terminal: Terminal) -> Exit | None:
    """List the names; what they say is not shown."""
    from penstock.service.operations import secrets

    with at_desk() as (desk, actor):
        found = secrets.list_secrets(desk, actor)
    if terminal.as_json:
        terminal.data([view.model_dump() for view in found])
    else:
        terminal.table(("NAME",), [(view.name,) for view in found])
    return None


def set_secret(terminal: Terminal, name: Name) -> Exit | None:
    """Keep a secret, encrypted; it is asked for, or read from standard input."""
    from penstock.service.operations import secrets

    value = read_secret("secret")
    with at_desk() as (desk, actor):
        kept = secrets.set_secret(desk, actor, name, value)
    if terminal.as_json:
        terminal.data(kept.model_dump())
    else:
        terminal.line(f"{name} is kept")
    return None


def delete(terminal: Terminal, name: Name) -> Exit | None:
    """Keep a secret no longer."""
    from penstock.service.operations import secrets

    with at_desk() as (desk, actor):
        secrets.delete_secret(desk, actor, name)
    if terminal.as_json:
        terminal.data({"name": name, "deleted": True})
    else:
        terminal.line(f"{name} was deleted")
    return None
