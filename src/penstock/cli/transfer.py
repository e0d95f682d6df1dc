"""`penstock import` and `penstock export`: projects of OpenFn Lightning."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import recovery
from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.service.lightning.importing import ImportReport, Steps
    from penstock.store import Store


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Take over what other systems leave behind.", no_args_is_help=True)
    command(group, "lightning")(lightning)
    command(group, "lightning-recovery")(recovery.lightning_recovery)
    app.add_typer(group, name="import")
    command(app, "export")(export)


def lightning(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(help="A project as YAML or JSON, or rows of Lightning's tables as JSON.")],
    forward: Annotated[
        str | None, typer.Option("--forward", help="Post each message to this Lightning instance, as its webhook.")
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", help="Start the steps of this workflow of the store instead.")
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Name of the project, if not the file's.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="TRIGGER=GROUP, by id or WORKFLOW/NAME: where it goes on; may be repeated."),
    ] = None,
    username: Annotated[
        str | None, typer.Option("--username", help="For triggers that log in; ${NAME} stays a reference.")
    ] = None,
    password: Annotated[
        str | None, typer.Option("--password", help="With --username; ${NAME} stays a reference.")
    ] = None,
    divide_timeouts: Annotated[
        bool, typer.Option("--divide-timeouts", help="Timeouts of 1000 and more were meant in milliseconds.")
    ] = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="With --forward: the instance may be in a private network.")
    ] = False,
    list_groups: Annotated[
        bool, typer.Option("--list-groups", help="Only list the groups that Lightning has left on the clusters.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
) -> Exit | None:
    """Import a project of OpenFn Lightning: workflows and Kafka triggers. Jobs stay as text; say by --forward or
    --workflow what messages start. Triggers come in disabled; `penstock triggers enable` looks where each goes on.
    Encrypted credentials are read with PRIMARY_ENCRYPTION_KEY of the environment."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.lightning.cloak import KEY_VARIABLE, Cloak
    from penstock.service.lightning.importing import ImportChoices, import_project
    from penstock.service.opening import opened_for_writing
    from penstock.service.secrets import SecretBox

    if list_groups:
        return _list_groups(terminal, file, project)
    settings = Settings.load()
    key = os.environ.get(KEY_VARIABLE)
    with opened_for_writing(settings) as store:
        choices = ImportChoices(
            project=project,
            steps=_steps(store, forward, workflow, allow_private=allow_private),
            groups=_groups(group or []),
            cloak=Cloak(key) if key else None,
            username=username,
            password=password,
            divide_timeouts=divide_timeouts,
            dry_run=dry_run,
        )
        importing = nullcontext() if dry_run else by_command(store, "import.lightning", "project", {"file": str(file)})
        with importing as change:
            report = import_project(store, SecretBox.of(store, settings), file, choices)
            if change is not None:
                change.data |= {"project": report.project, "created": report.created, "changed": report.changed}
    if terminal.as_json:
        terminal.data(report.as_dict())
    else:
        _show(terminal, report)
    return None


def _list_groups(terminal: Terminal, file: Path, project: str | None) -> Exit | None:
    from penstock.service.lightning.groups import list_groups as listed

    rows = listed(file, project)
    if terminal.as_json:
        terminal.data(rows)
        return None
    for row in rows:
        terminal.line(row["trigger"], style="bold")
        for group in row["groups"]:
            mark = "reads its topics" if group["reads_all"] else "reads others"
            terminal.line(f"  {group['group']}: {', '.join(group['topics']) or 'nothing committed'} ({mark})")
        if not row["groups"]:
            terminal.line(f"  {row['reason'] or 'no group of Lightning is known there'}")
    return None


def _steps(store: Store, forward: str | None, workflow: str | None, *, allow_private: bool) -> Steps | None:
    from penstock.service.lightning.choices import forwarding, steps_of
    from penstock.service.workflows import find_workflow

    if forward and workflow:
        raise ConfigError("messages start one thing", allowed=["--forward", "--workflow"])
    if forward:
        return lambda imported: forwarding(imported, forward, allow_private=allow_private)
    if workflow:
        chosen = steps_of(store, find_workflow(store, workflow).id)
        return lambda _: chosen
    return None


def _groups(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        trigger, equals, group = each.rpartition("=")
        if not equals or not trigger or not group:
            raise ConfigError("--group wants TRIGGER=GROUP", received=each)
        found[trigger] = group
    return found


def _show(terminal: Terminal, report: ImportReport) -> None:
    for word in ("created", "changed", "unchanged", "deleted"):
        for name in getattr(report, word):
            terminal.line(f"{report.project}/{name}: {word}")
    for trigger in report.triggers:
        enabled = "enabled" if trigger.enabled else "disabled"
        terminal.line(
            f"  trigger {trigger.workflow}/{trigger.name} ({enabled}), group {trigger.group_id}, id {trigger.id}"
        )
        for remark in trigger.remarks:
            terminal.line(f"    {remark}", style="yellow")
    for warning in report.warnings:
        terminal.note(f"warning: {warning}", style="yellow")
    for ignored in report.ignored:
        terminal.line(f"  ignored: {ignored}")
    if report.dry_run:
        terminal.line("nothing was changed: this was a dry run")
    elif any(trigger.was_enabled and not trigger.enabled for trigger in report.triggers):
        terminal.line("next: penstock triggers test NAME, then penstock triggers enable NAME")


def export(
    terminal: Terminal,
    project: Annotated[str, typer.Argument(help="The project.")],
    form: Annotated[
        str, typer.Option("--format", help="yaml or json: as Lightning's CLI or its API writes it.")
    ] = "yaml",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; absent: standard output.")] = None,
) -> Exit | None:
    """Write a project as Lightning does, with group, SSL and SASL, and Penstock's steps besides; secrets are
    references."""
    from penstock.service.lightning.exporting import export_project
    from penstock.service.opening import opened_store

    if form not in ("yaml", "json"):
        raise ConfigError("--format is yaml or json", received=form, allowed=["yaml", "json"])
    with opened_store() as store:
        if store is None:
            raise ConfigError(f"there is no project {project!r}: there is no store yet", received=project)
        text = export_project(store, project, "yaml" if form == "yaml" else "json")
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{out} cannot be written: {error.strerror}", received=str(out)) from None
    if terminal.as_json:
        terminal.data({"project": project, "file": str(out) if out else None, "text": None if out else text})
    elif out is None:
        terminal.line(text.rstrip("\n"))
    else:
        terminal.line(f"wrote {out}")
    return None
