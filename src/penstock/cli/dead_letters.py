"""`penstock dead-letters`: events that ended in failure, with their bytes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.visible import one_line

_OWN_LINES = ("key", "value", "headers", "history", "traceback", "value_seen")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Events that ended in failure.", no_args_is_help=True)
    command(group, "list")(list_letters)
    command(group, "show")(show)
    app.add_typer(group, name="dead-letters")


def list_letters(
    terminal: Terminal,
    pipeline: Annotated[str | None, typer.Option(help="Only of this pipeline.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only of this topic.")] = None,
    stage: Annotated[str | None, typer.Option(help="Only that failed in this stage.")] = None,
    error: Annotated[str | None, typer.Option(help="Only with this text in the error, or this error code.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 100,
) -> Exit | None:
    """List dead letters, the newest first."""
    from penstock.service.dead_letters import list_dead_letters, which_letters
    from penstock.service.opening import opened_store

    which = which_letters(pipeline=pipeline, topic=topic, stage=stage, error=error)
    with opened_store() as store:
        rows = list_dead_letters(store, which, limit) if store is not None else []
    if terminal.as_json:
        terminal.data([row.as_dict() for row in rows])
        return None
    if not rows:
        terminal.line("no dead letters")
        return None
    columns = ("ID", "PIPELINE", "WHERE", "STAGE", "CODE", "ATTEMPTS", "STATUS", "LAST FAILED", "ERROR")
    shown = []
    for row in rows:
        data = row.as_dict()
        where = f"{row.topic}/{row.partition}@{row.offset}"
        text = row.error if len(row.error) <= 80 else f"{row.error[:79]}…"
        facts = (row.stage, row.error_code, row.attempts, row.status, data["last_failed_at"])
        shown.append((row.id, row.pipeline, where, *facts, text))
    terminal.table(columns, shown)
    return None


def show(
    terminal: Terminal,
    letter_id: Annotated[int, typer.Argument(help="The id that `list` shows.", metavar="ID")],
) -> Exit | None:
    """Show one dead letter with its key, value, headers, error and history."""
    from penstock.core.errors import ConfigError
    from penstock.service.dead_letters import show_dead_letter
    from penstock.service.opening import opened_store

    with opened_store() as store:
        if store is None:
            raise ConfigError("no such dead letter", received=letter_id, hint="this store does not exist yet")
        letter = show_dead_letter(store, letter_id)
    if terminal.as_json:
        terminal.data(letter)
    else:
        _show_letter(terminal, letter)
    return None


def _show_letter(terminal: Terminal, letter: dict[str, Any]) -> None:
    for name, value in letter.items():
        if name not in _OWN_LINES and value is not None:
            terminal.line(f"{name:16} {one_line(value)}")
    for name in ("key", "value", "value_seen"):
        terminal.line(f"{name:16} {_shown(letter[name])}")
    for header in letter["headers"]:
        terminal.line(f"{'header':16} {one_line(header['name'])} = {_shown(header['value'])}")
    for step in letter["history"]:
        terminal.line(f"{'history':16} {step['at']} {step['kind']}: {one_line(step['text'])}")
    if letter["traceback"]:
        terminal.line()
        terminal.line(letter["traceback"])


def _shown(raw: dict[str, str] | None) -> str:
    if raw is None:
        return "(null)"
    return one_line(raw["text"]) if "text" in raw else f"base64:{raw['base64']}"
