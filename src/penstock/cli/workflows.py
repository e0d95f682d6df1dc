"""`penstock workflows`: what is done when a message comes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.files import Paths, show_problems
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

Workflow = Annotated[str, typer.Argument(help="The workflow: PROJECT/NAME, its name, or its id.", metavar="WORKFLOW")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Workflows in the store.", no_args_is_help=True)
    for name, body in (
        ("apply", apply),
        ("delete", delete),
        ("list", list_workflows),
        ("show", show),
        ("run", run),
    ):
        command(group, name)(body)
    app.add_typer(group, name="workflows")


def apply(terminal: Terminal, paths: Paths) -> Exit | None:
    """Bring the workflows of files into the store; running instances follow within two seconds."""
    from penstock.config.problems import InvalidConfigError
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.secrets import SecretBox
    from penstock.service.validation import load_checked
    from penstock.service.workflows import apply_workflow

    settings = Settings.load()
    loaded = load_checked(paths)
    show_problems(terminal, loaded.warnings, "warning")
    if loaded.problems:
        raise InvalidConfigError(loaded.problems)
    if not loaded.workflows:
        raise ConfigError("there is no workflow in it", received=[str(path) for path in paths], hint="kind: workflow")
    with opened_for_writing(settings) as store:
        box = SecretBox.of(store, settings)
        done = []
        for spec in loaded.workflows:
            with by_command(store, "workflows.apply", f"workflow/{spec.full_name}", {"file": spec.origin}) as change:
                done.append(apply_workflow(store, box, spec))
                change.data["snapshot"] = done[-1].workflow.snapshot_id
    if terminal.as_json:
        terminal.data([each.as_dict() for each in done])
        return None
    for each in done:
        word = "created" if each.is_new else "changed" if each.changed else "unchanged"
        terminal.line(f"{each.project}/{each.workflow.name}: {word}, {len(each.triggers)} triggers")
        for warning in each.warnings:
            terminal.note(f"warning: {warning}", style="yellow")
    return None


def delete(
    terminal: Terminal,
    workflow: Workflow,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Exit | None:
    """Take a workflow and its triggers out of use, on every instance; its work orders stay."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.workflows import delete_workflow, find_workflow, full_names

    with opened_for_writing(Settings.load()) as store:
        found = find_workflow(store, workflow)
        name = full_names(store)[found.id]
        terminal.confirm(f"delete {name}?", yes=yes)
        with by_command(store, "workflows.delete", f"workflow/{found.id}", {"name": name}):
            delete_workflow(store, found.id)
    if terminal.as_json:
        terminal.data({"id": found.id, "workflow": name, "deleted": True})
    else:
        terminal.line(f"{name}: deleted")
    return None


def list_workflows(
    terminal: Terminal,
    project: Annotated[str | None, typer.Option("--project", help="Only those of this project.")] = None,
) -> Exit | None:
    """List workflows with their steps and triggers."""
    from penstock.service.opening import opened_store
    from penstock.service.workflow_views import list_workflows as listed

    with opened_store() as store:
        views = listed(store, project) if store is not None else []
    if terminal.as_json:
        terminal.data([view.as_dict() for view in views])
        return None
    if not views:
        terminal.line("there is no workflow; `penstock workflows apply FILE` brings one in")
        return None
    columns = ("WORKFLOW", "STEPS", "TRIGGERS", "ENABLED", "ORIGIN", "CHANGED", "ID")
    rows = [
        (f"{v.project}/{v.name}", len(v.steps), len(v.triggers), v.enabled_triggers, v.origin, v.updated_at, v.id)
        for v in views
    ]
    terminal.table(columns, rows)
    return None


def show(terminal: Terminal, workflow: Workflow) -> Exit | None:
    """Show a workflow's definition; secrets are masked."""
    from penstock.service.opening import opened_store
    from penstock.service.workflow_views import show_workflow

    with opened_store() as store:
        if store is None:
            raise ConfigError(f"there is no workflow {workflow!r}: there is no store yet", received=workflow)
        view = show_workflow(store, workflow)
    if terminal.as_json:
        terminal.data(view)
    else:
        _show(terminal, view)
    return None


def _show(terminal: Terminal, view: dict[str, Any]) -> None:
    terminal.line(f"{view['project']}/{view['name']}", style="bold")
    for key in ("id", "origin", "snapshot", "versions", "updated_at"):
        terminal.line(f"  {key}: {view[key]}")
    definition = view["definition"]
    for step in definition.get("steps", []):
        terminal.line(f"  step {step['name']}: {step['kind']}")
    for edge in definition.get("edges", []):
        terminal.line(f"  {edge['from']} → {edge['to']} when {edge['when']}")
    for trigger in view["triggers"]:
        terminal.line(
            f"  trigger {trigger['name']} ({'enabled' if trigger['enabled'] else 'disabled'}): {trigger['id']}"
        )
    for job in definition.get("lightning", {}).get("jobs", []):
        terminal.line(f"  Lightning job {job.get('name')} ({job.get('adaptor')}), kept as text")


def run(
    terminal: Terminal,
    workflow: Workflow,
    body: Annotated[
        str | None, typer.Option("--input", help="The input, as JSON; - reads it from standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--input-file", help="A file with the input, as JSON.")] = None,
    dataclip: Annotated[str | None, typer.Option("--dataclip", help="Id of an input that is kept already.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name under which the input is kept.")] = None,
    step: Annotated[str | None, typer.Option("--from", help="Step to begin at.")] = None,
) -> Exit | None:
    """Make a work order by hand; an instance runs it at once."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.workflow_views import run_workflow
    from penstock.service.workflows import find_workflow

    if sum(given is not None for given in (body, file, dataclip)) > 1:
        raise ConfigError("give one input", allowed=["--input", "--input-file", "--dataclip"])
    written = _input(body, file)
    with opened_for_writing(Settings.load()) as store:
        found = find_workflow(store, workflow)
        with by_command(store, "workflows.run", f"workflow/{found.id}", {"step": step, "name": name}) as change:
            made = run_workflow(store, found.id, body=written, dataclip=dataclip, name=name, step=step)
            change.data["work_order"] = made["work_order_id"]
    if terminal.as_json:
        terminal.data(made)
    else:
        terminal.line(f"work order {made['work_order_id']}, run {made['run_id']}")
    return None


def _input(body: str | None, file: Path | None) -> str | None:
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read: {error}", received=str(file)) from None
    return sys.stdin.read() if body == "-" else body
