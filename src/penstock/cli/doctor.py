"""`penstock doctor`: whether this machine has what a run needs."""

from __future__ import annotations

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

_STYLES = {"ok": "green", "warning": "yellow", "failed": "red"}


def register(app: typer.Typer) -> None:
    command(app, "doctor")(doctor)


def doctor(terminal: Terminal) -> Exit | None:
    """Check Java, Spark, the Kafka client, the store, permissions and ports."""
    from penstock.service.doctor import examine

    checks = list(examine())
    failed = any(check.verdict == "failed" for check in checks)
    if terminal.as_json:
        terminal.data([check.as_dict() for check in checks])
    else:
        for check in checks:
            terminal.line(f"{check.verdict:8} {check.name:13} {check.detail}", style=_STYLES[check.verdict])
            if check.hint:
                terminal.line(f"{'':22} {check.hint}")
    return Exit.FAILED if failed else None
