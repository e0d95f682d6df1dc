"""`penstock dead-letters`: events that ended in failure, with their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import letter_options as given
from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError
from penstock.core.visible import one_line

if TYPE_CHECKING:
    from penstock.store import Store

_OWN_LINES = ("key", "value", "headers", "history", "traceback", "value_seen")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Events that ended in failure.", no_args_is_help=True)
    command(group, "list")(list_letters)
    command(group, "show")(show)
    command(group, "discard")(discard)
    command(group, "export")(export)
    command(group, "import")(import_)
    app.add_typer(group, name="dead-letters")


@given.with_filters
def list_letters(
    terminal: Terminal,
    filters: given.Filters,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 100,
) -> Exit | None:
    """List dead letters, the newest first."""
    from penstock.service.dead_letters import list_dead_letters, which_letters
    from penstock.service.opening import opened_store

    which = which_letters(**filters)
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
        message = row.error if len(row.error) <= 80 else f"{row.error[:79]}…"
        facts = (row.stage, row.error_code, row.attempts, row.status, data["last_failed_at"])
        shown.append((row.id, row.pipeline, where, *facts, message))
    terminal.table(columns, shown)
    return None


def show(
    terminal: Terminal,
    letter_id: Annotated[int, typer.Argument(help="The id that `list` shows.", metavar="ID")],
) -> Exit | None:
    """Show one dead letter with its key, value, headers, error and history."""
    from penstock.service.dead_letters import show_dead_letter

    with _store() as store:
        letter = show_dead_letter(store, letter_id)
    if terminal.as_json:
        terminal.data(letter)
    else:
        _show_letter(terminal, letter)
    return None


@given.with_filters
def discard(
    terminal: Terminal,
    filters: given.Filters,
    ids: given.Ids = None,
    every: given.Every = False,
    reason: Annotated[str, typer.Option(help="Why; kept in the letters' histories.")] = "",
    dry_run: given.DryRun = False,
    yes: given.Yes = False,
) -> Exit | None:
    """Close new and parked dead letters without a replay; they stay listed as discarded."""
    from penstock.service.audit import by_command
    from penstock.service.dead_letters import chosen_letters, count_discardable, discard_dead_letters
    from penstock.service.pipelines import person

    which = chosen_letters(ids, filters, every=every)
    with _store() as store:
        counts = count_discardable(store, which)
        total = sum(counts.values())
        done = 0
        if total and not dry_run:
            terminal.confirm(f"Discard {total} dead letters? They cannot be replayed afterwards.", yes=yes)
            said = {"which": {**filters, "ids": ids}, "reason": reason, "letters": total}
            with (
                by_command(store, "dead_letters.discard", "dead-letters", said),
                terminal.progress("discarding", total) as progress,
            ):
                done = discard_dead_letters(store, which, by=person(), reason=reason, progress=progress)
    if terminal.as_json:
        terminal.data({"letters": total, "statuses": counts, "discarded": done})
        return None
    states = ", ".join(f"{number} {name}" for name, number in counts.items())
    if dry_run or not total:
        terminal.line(f"{total} dead letters would be discarded" + (f": {states}" if states else ""))
    else:
        terminal.line(f"{done} dead letters discarded")
    return None


@given.with_filters
def export(
    terminal: Terminal,
    filters: given.Filters,
    file: Annotated[Path, typer.Argument(help="File to write: one JSON line per letter.", dir_okay=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> Exit | None:
    """Write dead letters with bytes and histories to a file, in partition order; all, where there is no filter."""
    from penstock.service.audit import by_command
    from penstock.service.dead_letters import which_letters
    from penstock.service.letter_files import export_letters

    which = which_letters(**filters)
    if file.exists() and not force:
        raise ConfigError(f"{file} exists", received=str(file), hint="give another name, or --force")
    with (
        _store() as store,
        terminal.progress("exporting", store.dead_letters.count(which)) as progress,
        by_command(store, "dead_letters.export", "dead-letters", {"file": str(file)}) as change,
    ):
        letters = change.data["letters"] = export_letters(store, which, file, progress)
    if terminal.as_json:
        terminal.data({"file": str(file), "letters": letters})
    else:
        terminal.line(f"{letters} dead letters written to {file}")
    return None


def import_(
    terminal: Terminal,
    file: Annotated[
        Path, typer.Argument(help="File that `export` wrote, or DataHub's failed_events.log.", dir_okay=False)
    ],
    pipeline: Annotated[
        str | None, typer.Option(help="Whose failed_events.log it is; default: by the name of its folder.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("--config", "-c", help="Where that pipeline is; default: as it last ran.")
    ] = None,
    dry_run: given.DryRun = False,
) -> Exit | None:
    """Add the dead letters of a file to the store, all or none; those that it has already are left as they are."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.failed_events import is_failed_events
    from penstock.service.letter_files import check_file, import_letters
    from penstock.service.opening import opened_for_writing
    from penstock.service.pipelines import person

    if is_failed_events(file):
        return _import_failed_events(terminal, file, pipeline, config or [], dry_run=dry_run)
    if pipeline is not None or config:
        raise ConfigError("--pipeline and --config go with DataHub's failed_events.log only", received=str(file))
    size = file.stat().st_size if file.exists() else 0
    with terminal.progress("importing", size if dry_run else 2 * size) as progress:
        if dry_run:
            found = check_file(file, progress)
            data = {"file": str(file), "letters": found, "added": 0, "present": 0}
        else:
            with (
                opened_for_writing(Settings.load()) as store,
                by_command(store, "dead_letters.import", "dead-letters", {"file": str(file)}) as change,
            ):
                added, present = import_letters(store, file, by=person(), progress=progress)
                change.data["added"] = added
            data = {"file": str(file), "letters": added + present, "added": added, "present": present}
    if terminal.as_json:
        terminal.data(data)
    elif dry_run:
        terminal.line(f"{file} is a whole export of {data['letters']} dead letters")
    else:
        terminal.line(f"{data['added']} dead letters added, {data['present']} were there already")
    return None


def _import_failed_events(
    terminal: Terminal, file: Path, pipeline: str | None, config: list[Path], *, dry_run: bool
) -> Exit | None:
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.failed_events import import_failed_events, owner_of, records_of
    from penstock.service.opening import opened_for_writing
    from penstock.service.pipelines import person
    from penstock.service.specs import current_spec, only_spec

    added = present = 0
    with opened_for_writing(Settings.load()) as store:
        if pipeline is None and config:
            spec = only_spec(config)
        else:
            spec = current_spec(pipeline or owner_of(file, store.pipelines.with_specs()), config, store)
        events = sum(1 for _ in records_of(spec, file))
        if not dry_run:
            with by_command(store, "dead_letters.import", f"pipeline/{spec.name}", {"file": str(file)}) as change:
                added, present = import_failed_events(store, file, spec, by=person())
                change.data["added"] = added
    data = {"file": str(file), "letters": events, "added": added, "present": present, "pipeline": spec.name}
    if terminal.as_json:
        terminal.data(data)
    elif dry_run:
        terminal.line(f"{file} has {events} failed events of {spec.name}")
    else:
        terminal.line(f"{added} dead letters added to {spec.name}, {present} were there already")
    return None


@contextmanager
def _store() -> Iterator[Store]:
    from penstock.service.opening import opened_store

    with opened_store() as store:
        if store is None:
            raise ConfigError("there are no dead letters", hint="this store does not exist yet")
        yield store


def _show_letter(terminal: Terminal, letter: dict[str, Any]) -> None:
    for name, value in letter.items():
        if name not in _OWN_LINES and value is not None:
            terminal.line(f"{name:16} {one_line(value)}")
    for name in ("key", "value", "value_seen"):
        terminal.line(f"{name:16} {_shown(letter[name])}")
    for header in letter["headers"]:
        terminal.line(f"{'header':16} {one_line(header['name'])} = {_shown(header['value'])}")
    for step in letter["history"]:
        doer = f" by {step['by']}" if step["by"] else ""
        terminal.line(f"{'history':16} {step['at']} {step['kind']}{one_line(doer)}: {one_line(step['text'])}")
    if letter["traceback"]:
        terminal.line()
        terminal.line(letter["traceback"])


def _shown(raw: dict[str, str] | None) -> str:
    if raw is None:
        return "(null)"
    return one_line(raw["text"]) if "text" in raw else f"base64:{raw['base64']}"
