"""The command `penstock`. Each command's heavy parts are imported when it runs, so that starting costs little."""

from __future__ import annotations

import platform
import sys

import typer

from penstock.cli import (
    actions,
    db,
    dead_letters,
    demo,
    doctor,
    files,
    offsets,
    pipelines,
    plugins,
    replay,
    run,
    secrets,
    status,
    tokens,
    topics,
    transfer,
    triggers,
    users,
    wherehows,
    work_orders,
    workflows,
)
from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

app = typer.Typer(
    name="penstock",
    help="Runs actions on Kafka events, on Spark, and loses none of them.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

for part in (run, demo, files, status, pipelines, offsets, topics, dead_letters, replay, plugins):
    part.register(app)
for part in (workflows, triggers, transfer, work_orders, actions, wherehows, users, tokens, secrets, db, doctor):
    part.register(app)


@command(app, "version")
def version(terminal: Terminal) -> Exit | None:
    """Show the versions of Penstock and of what it runs on."""
    from importlib.metadata import version as installed

    names = ("penstock", "pyspark", "confluent-kafka")
    versions = {name: installed(name) for name in names} | {"python": platform.python_version()}
    if terminal.as_json:
        terminal.data(versions)
    else:
        terminal.line(f"penstock {versions['penstock']}")
        terminal.line(", ".join(f"{name} {versions[name]}" for name in ("pyspark", "confluent-kafka", "python")))
    return None


def main() -> None:
    """Entry point of the installed command."""
    # A pipe's encoding may be ASCII; what cannot be written is shown escaped instead of ending in a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="penstock")


if __name__ == "__main__":
    main()
