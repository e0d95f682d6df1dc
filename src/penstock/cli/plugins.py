"""`penstock plugins`: which filters, transforms and actions this installation knows."""

from __future__ import annotations

from dataclasses import asdict

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal


def register(app: typer.Typer) -> None:
    command(app, "plugins")(plugins)


def plugins(terminal: Terminal) -> Exit | None:
    """List the filters, transforms and actions that pipelines can name."""
    from penstock.service.plugins import list_plugins

    found = list_plugins()
    if terminal.as_json:
        terminal.data([asdict(info) for info in found])
        return None
    rows = [(info.kind, info.name, info.origin, info.disabled or "") for info in found]
    terminal.table(("KIND", "NAME", "FROM", "DISABLED BECAUSE"), rows)
    return None
