"""`penstock db`: the schema of the store."""

from __future__ import annotations

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

_MEANING = {
    "current": "it is what this version works with",
    "missing": "there is no store yet; `penstock run` or `penstock db upgrade` makes one",
    "older": "`penstock run` or `penstock db upgrade` brings it to version {known}",
    "newer": "a newer Penstock has upgraded it; this one knows version {known} at most and does not run with it",
}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The store's schema.", no_args_is_help=True)
    command(group, "current")(current)
    command(group, "upgrade")(upgrade)
    app.add_typer(group, name="db")


def current(terminal: Terminal) -> Exit | None:
    """Show the version of the store's schema, and the one this Penstock works with; nothing is changed."""
    from penstock.config.settings import Settings
    from penstock.service.database import schema_view

    view = schema_view(Settings.load())
    if terminal.as_json:
        terminal.data(view.as_dict())
    else:
        terminal.line(f"{view.current or 'none'}: {_MEANING[view.state].format(known=view.known)}")
    return Exit.FAILED if view.state == "newer" else None


def upgrade(terminal: Terminal) -> Exit | None:
    """Bring the store's schema to the version this Penstock works with; instances of the version before go on."""
    from penstock.config.settings import Settings
    from penstock.service.database import upgrade_store

    before, after = upgrade_store(Settings.load())
    if terminal.as_json:
        terminal.data({"from": before.current, "to": after.current})
    elif before.current == after.current:
        terminal.line(f"{after.current}: nothing to do")
    else:
        terminal.line(f"upgraded from {before.current or 'nothing'} to {after.current}")
    return None
