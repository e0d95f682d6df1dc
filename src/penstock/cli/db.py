"""`penstock db`: the schema of the store, the key of its secrets, and the tables of WhereHows in a target database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    group = typer.Typer(help="The store's schema and key; tables in target databases.", no_args_is_help=True)
    command(group, "current")(current)
    command(group, "upgrade")(upgrade)
    command(group, "create-staging")(create_staging)
    command(group, "rotate-key")(rotate_key)
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


def create_staging(
    terminal: Terminal,
    url: Annotated[str, typer.Option("--url", envvar="WHZ_DB_URL", help="The database, as a SQLAlchemy or JDBC URL.")],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", help="A table, or staging, load-status, metadata, lookup or jobs for several; may be repeated."
        ),
    ] = None,
) -> Exit | None:
    """Make the tables of WhereHows that are missing in a database; those that are there stay as they are."""
    from penstock.service.staging import create_staging as made

    done = made(url, [word.strip() for given in only or [] for word in given.split(",") if word.strip()])
    if terminal.as_json:
        terminal.data(done.as_dict())
        return None
    for table in done.created:
        terminal.line(f"created {table}")
    terminal.line(f"{done.database}: {len(done.created)} created, {len(done.existing)} there already")
    return None


def rotate_key(
    terminal: Terminal,
    new_key_file: Annotated[
        Path | None, typer.Option("--new-key-file", help="File with the new key; absent: one is made in the home.")
    ] = None,
) -> Exit | None:
    """Encrypt the store's secrets under another key. The old one stays in the home, as secret.key.old; instances with
    a key of their own need the new one, and a restart."""
    import os

    from penstock.config.settings import Settings
    from penstock.core.errors import ConfigError
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.secrets import rotate_key as rotated

    settings = Settings.load()
    try:
        new = new_key_file.read_text(encoding="ascii") if new_key_file else None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{new_key_file} cannot be read: {error}", received=str(new_key_file)) from None
    with opened_for_writing(settings) as store, by_command(store, "db.rotate-key", "store") as change:
        rows = rotated(store, settings, os.environ, new)
        change.data["rows"] = rows
    if terminal.as_json:
        terminal.data({"rows": rows})
    else:
        terminal.line(f"the key was changed; {rows} {'row was' if rows == 1 else 'rows were'} encrypted anew")
    return None
