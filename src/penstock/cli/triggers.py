"""`penstock triggers`: what starts workflows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.run import show_finding
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.service.resuming import Enabled, OffsetsGone
    from penstock.store import Store

Trigger = Annotated[
    str, typer.Argument(help="The trigger: PROJECT/WORKFLOW/NAME, an end of that, or its id.", metavar="TRIGGER")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Triggers of workflows.", no_args_is_help=True)
    for name, body in (
        ("list", list_triggers),
        ("show", show),
        ("enable", enable),
        ("disable", disable),
        ("test", try_connection),
    ):
        command(group, name)(body)
    app.add_typer(group, name="triggers")


def list_triggers(
    terminal: Terminal,
    project: Annotated[str | None, typer.Option("--project", help="Only those of this project.")] = None,
) -> Exit | None:
    """List triggers: whether they are enabled, what they do, and what they have done."""
    from penstock.service.opening import opened_store
    from penstock.service.triggers import list_triggers as listed

    with opened_store() as store:
        views = listed(store, project) if store is not None else []
    if terminal.as_json:
        terminal.data([view.as_dict() for view in views])
        return None
    if not views:
        terminal.line("there is no trigger")
        return None
    columns = ("TRIGGER", "ENABLED", "STATE", "TOPICS", "LAG", "MESSAGES", "DEAD LETTERS", "REASON", "ID")
    rows = [
        (
            f"{v.workflow}/{v.name}",
            "yes" if v.enabled else "no",
            v.state,
            v.topics,
            v.lag,
            v.messages,
            v.dead_letters,
            v.reason,
            v.id,
        )
        for v in views
    ]
    terminal.table(columns, rows)
    return None


def show(terminal: Terminal, trigger: Trigger) -> Exit | None:
    """Show a trigger: its configuration without secrets, its group, its partitions."""
    from penstock.service.opening import opened_store
    from penstock.service.triggers import find_trigger, show_trigger

    with opened_store() as store:
        row = find_trigger(_there(store, trigger), trigger)
        view = show_trigger(_there(store, trigger), row)
    if terminal.as_json:
        terminal.data(view)
        return None
    terminal.line(f"{view['workflow']}/{view['name']}", style="bold")
    for key in ("id", "enabled", "state", "reason", "comment", "pipeline", "updated_at"):
        if view[key] is not None:
            terminal.line(f"  {key}: {view[key]}")
    settings = view["kafka_configuration"] | {"hosts": view["hosts"], "topics": view["topics"]} | view["options"]
    for key, value in settings.items():
        if value is not None:
            terminal.line(f"  {key}: {value}")
    places = view["partitions"]
    if places:
        columns = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OWNER")
        terminal.table(columns, [[place[name.lower()] for name in columns] for place in places])
    return None


def _there(store: Store | None, trigger: str) -> Store:
    if store is None:
        raise ConfigError(f"there is no trigger {trigger!r}: there is no store yet", received=trigger)
    return store


def enable(
    terminal: Terminal,
    trigger: Trigger,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", help="Where to go on: committed, earliest, latest, or a time (ISO or epoch milliseconds)."
        ),
    ] = None,
) -> Exit | None:
    """Let a trigger run, on every instance, within two seconds. Where the broker has forgotten the offsets of its
    group, it asks where to go on."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.resuming import OffsetsGone
    from penstock.service.resuming import enable as enabled
    from penstock.service.triggers import find_trigger, trigger_spec

    settings = Settings.load()
    with opened_for_writing(settings) as store:
        row = find_trigger(store, trigger)
        spec = trigger_spec(store, settings, row)
        with by_command(store, "triggers.enable", f"trigger/{row.id}", {"resume": resume}) as change:
            try:
                done = enabled(store, spec, row, resume)
            except OffsetsGone as error:
                change.data["resume"] = _asked(terminal, error)
                done = enabled(store, spec, row, change.data["resume"])
    _show_enabled(terminal, done)
    return None


def _asked(terminal: Terminal, error: OffsetsGone) -> str:
    if terminal.as_json or not sys.stdin.isatty():
        raise error
    terminal.note(error.message, style="yellow")
    for name, text in error.standing.choices().items():
        terminal.note(f"  {name}: {text}", style=None)
    answer: str = typer.prompt("go on at")
    return answer.strip()


def _show_enabled(terminal: Terminal, done: Enabled) -> None:
    if terminal.as_json:
        terminal.data(done.as_dict())
        return
    for warning in done.warnings:
        terminal.note(f"warning: {warning}", style="yellow")
    for move in done.moves:
        terminal.line(f"  {move.topic}/{move.partition}: goes on at {move.new}")
    terminal.line(f"{done.trigger.name}: enabled")


def disable(terminal: Terminal, trigger: Trigger) -> Exit | None:
    """End a trigger on every instance; where it stands is kept by the broker for as long as it keeps offsets, and by
    the store."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.triggers import disable as disabled
    from penstock.service.triggers import find_trigger

    with opened_for_writing(Settings.load()) as store:
        found = find_trigger(store, trigger)
        with by_command(store, "triggers.disable", f"trigger/{found.id}"):
            row = disabled(store, [found])[0]
    if terminal.as_json:
        terminal.data({"id": row.id, "name": row.name, "enabled": row.enabled})
    else:
        terminal.line(f"{row.name}: disabled")
    return None


def try_connection(
    terminal: Terminal,
    trigger: Trigger,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that each step may take.")] = 5.0,
) -> Exit | None:
    """Try a trigger's connection, each step apart: DNS, TCP, TLS, SASL, metadata, topics, group. Nothing is changed."""
    from penstock.config.settings import Settings
    from penstock.service.opening import opened_store
    from penstock.service.triggers import find_trigger, tried_connection, trigger_spec

    settings = Settings.load()
    with opened_store(settings) as store:
        row = find_trigger(_there(store, trigger), trigger)
        spec = trigger_spec(_there(store, trigger), settings, row)
    found: list[dict[str, Any]] = []
    for finding in tried_connection(spec, timeout):
        found.append(finding.as_dict())
        if not terminal.as_json:
            show_finding(terminal, finding)
    if terminal.as_json:
        terminal.data({"trigger": row.id, "ok": all(each["ok"] for each in found), "steps": found})
    failed = {each["step"] for each in found if each["ok"] is False}
    if failed & {"dns", "tcp", "metadata", "advertised"}:
        return Exit.UNREACHABLE
    return Exit.FAILED if failed else None
