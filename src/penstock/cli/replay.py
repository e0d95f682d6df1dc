"""`penstock replay` and `penstock dead-letters replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import letter_options as given
from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.service.replay import Edit, FilePlan, LetterPlan, LetterReplay, PreparedReplay, RangePlan
    from penstock.store import Store

Config = Annotated[
    list[Path] | None,
    typer.Option("--config", "-c", help="Pipeline file or folder to take the spec from; default: as it last ran."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be replayed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Rate = Annotated[str | None, typer.Option(help="Events per second at most, such as 100/s.")]


def register(app: typer.Typer) -> None:
    command(app, "replay")(replay_range)
    for group in app.registered_groups:
        if group.name == "dead-letters" and group.typer_instance is not None:
            command(group.typer_instance, "replay")(replay_letters)


@given.with_filters
def replay_letters(
    terminal: Terminal,
    filters: given.Filters,
    ids: given.Ids = None,
    every: Annotated[bool, typer.Option("--all", help="All new letters, where there is no filter.")] = False,
    config: Config = None,
    dry_run: DryRun = False,
    rate: Rate = None,
    yes: Yes = False,
    max_replays: Annotated[
        int | None, typer.Option(min=1, help="Park a letter when so many replays have failed; default: the setting's.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="Replay one letter with this value instead of its own.")] = None,
    edit: Annotated[
        Path | None, typer.Option(help="Replay one letter with this file's bytes as its value instead of its own.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Replay the events of DataHub's failed_events.log instead of dead letters.")
    ] = None,
) -> Exit | None:
    """Run dead letters through their pipelines' current specs, in order; the group's position is not touched."""
    if from_file is not None:
        others = [name for name, wanted in filters.items() if wanted is not None and name != "pipeline"]
        if ids or others or every or value is not None or edit is not None or max_replays is not None:
            raise ConfigError("--from-file goes with --pipeline, --config, --rate and --dry-run only")
        return _replay_file(terminal, from_file, filters["pipeline"], config or [], rate=rate, dry_run=dry_run, yes=yes)

    from penstock.cli.replaying import run_replay
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.dead_letters import chosen_letters
    from penstock.service.opening import opened_store
    from penstock.service.replay import LetterReplay, plan_letters

    which = chosen_letters(ids, filters, every=every)
    changed, limit = _edit(value, edit), _rate(rate)
    settings = Settings.load()
    with opened_store(settings) as store:
        if store is None:
            raise ConfigError("there are no dead letters", hint="this store does not exist yet")
        if not dry_run:
            _free_orphans(terminal, store)
        plan = plan_letters(store, which, config or [], changed)
        if _show_letters(terminal, plan, dry_run=dry_run):
            return None
        terminal.confirm(f"Replay {plan.letters} dead letters?", yes=yes)
        replay = LetterReplay(plan, store, max_replays or settings.dead_letters.max_replays, limit, changed)
        said = {"pipelines": sorted(plan.specs), "letters": plan.letters}
        with by_command(store, "dead_letters.edit" if changed else "dead_letters.replay", "dead-letters", said):
            code = run_replay(terminal, settings, list(plan.specs.values()), replay)
    if terminal.as_json:
        terminal.data(replay.as_dict())
    else:
        _show_letters_end(terminal, replay)
    return code


def _replay_file(
    terminal: Terminal,
    file: Path,
    pipeline: str | None,
    config: list[Path],
    *,
    rate: str | None,
    dry_run: bool,
    yes: bool,
) -> Exit | None:
    from penstock.config.settings import Settings
    from penstock.service.opening import opened_store
    from penstock.service.replay import plan_file
    from penstock.service.specs import current_spec, only_spec

    settings = Settings.load()
    with opened_store(settings) as store:
        spec = only_spec(config) if pipeline is None else current_spec(pipeline, config, store)
    return _run_prepared(terminal, plan_file(spec, file), rate=rate, dry_run=dry_run, yes=yes)


def replay_range(
    terminal: Terminal,
    pipeline: Annotated[str, typer.Argument(help="The pipeline to run the events through.")],
    first: Annotated[str, typer.Option("--from", help="Offset, time or epoch milliseconds; earliest, latest.")],
    end: Annotated[str, typer.Option("--to", help="As --from; up to it, not including it.")] = "latest",
    topic: Annotated[str | None, typer.Option(help="The topic; needed where the pipeline reads several.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    config: Config = None,
    dry_run: DryRun = False,
    rate: Rate = None,
    yes: Yes = False,
) -> Exit | None:
    """Run a range of a topic through a pipeline once more; the group's position is not touched."""
    from penstock.config.settings import Settings
    from penstock.service.opening import opened_store
    from penstock.service.replay import plan_range
    from penstock.service.specs import current_spec

    with opened_store(Settings.load()) as store:
        spec = current_spec(pipeline, config or [], store)
    plan = plan_range(spec, first=first, end=end, topic=topic, partition=partition)
    return _run_prepared(terminal, plan, rate=rate, dry_run=dry_run, yes=yes)


def _run_prepared(
    terminal: Terminal, plan: RangePlan | FilePlan, *, rate: str | None, dry_run: bool, yes: bool
) -> Exit | None:
    from penstock.cli.replaying import run_replay
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.opening import opened_for_writing
    from penstock.service.replay import PreparedReplay

    limit = _rate(rate)
    if terminal.as_json and dry_run:
        terminal.data(plan.as_dict())
    elif not terminal.as_json:
        _show_prepared(terminal, plan)
    if dry_run:
        return None
    terminal.confirm(f"Replay up to {plan.total} events?", yes=yes)
    settings = Settings.load()
    with opened_for_writing(settings) as store:
        replay = PreparedReplay(plan, store, limit)
        with by_command(store, "pipelines.replay", f"pipeline/{plan.spec.name}", {"events": plan.total}):
            code = run_replay(terminal, settings, [plan.spec], replay)
    if terminal.as_json:
        terminal.data(replay.as_dict())
    else:
        _show_prepared_end(terminal, replay)
    return code


# -- what was written ----------------------------------------------------------------------


def _edit(value: str | None, file: Path | None) -> Edit | None:
    from penstock.service.replay import Edit

    if value is not None and file is not None:
        raise ConfigError("give --value or --edit, not both")
    if value is not None:
        return Edit(value.encode("utf-8", "surrogateescape"))
    if file is None:
        return None
    try:
        return Edit(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", received=str(file)) from error


def _rate(text: str | None) -> float | None:
    from penstock.core.durations import parse_rate

    try:
        return None if text is None else parse_rate(text)
    except ValueError as error:
        raise ConfigError(str(error), received=text, allowed="100/s, 6000/m") from None


def _free_orphans(terminal: Terminal, store: Store) -> None:
    from penstock.service.replayers import own_name, release_orphans

    freed = release_orphans(store, own_name())
    if freed:
        terminal.note(f"{freed} letters that a killed replay held are free again")


# -- showing -------------------------------------------------------------------------------


def _show_letters(terminal: Terminal, plan: LetterPlan, *, dry_run: bool) -> bool:
    """Show what would be replayed; True when that is all there is to do."""
    over = dry_run or not plan.letters
    if terminal.as_json and over:
        terminal.data(plan.as_dict())
    elif not terminal.as_json and plan.letters:
        terminal.table(("PIPELINE", "TOPIC", "PARTITION", "LETTERS"), plan.counts)
    elif not terminal.as_json:
        terminal.line("no dead letters to replay")
    return over


def _show_letters_end(terminal: Terminal, replay: LetterReplay) -> None:
    columns = ("PIPELINE", "REPLAYED", "FILTERED", "FAILED", "PARKED", "NOT REACHED")
    rows = []
    for name, marks in replay.marks.items():
        ended = replay.ended.get(name)
        rows.append((name, marks.replayed, ended.filtered if ended else 0, marks.failed, marks.parked, marks.released))
    terminal.table(columns, rows)
    for name, ended in replay.ended.items():
        if ended.halted:
            terminal.note(f"{name}: {ended.halted}", style="red")


def _show_prepared(terminal: Terminal, plan: RangePlan | FilePlan) -> None:
    shown = plan.as_dict()
    rows = shown.get("ranges")
    if rows is None:
        terminal.table(("PIPELINE", "TOPIC", "PARTITION", "EVENTS"), [list(r.values()) for r in shown["partitions"]])
        return
    columns = ("TOPIC", "PARTITION", "FROM", "TO", "OFFSETS", "LOG")
    terminal.table(columns, [[*list(r.values())[:5], f"{r['log']['first']} to {r['log']['end']}"] for r in rows])


def _show_prepared_end(terminal: Terminal, replay: PreparedReplay) -> None:
    ended = replay.ended
    if ended is None:
        return
    row = (replay.plan.spec.name, ended.events, ended.acted, ended.filtered, ended.failed)
    terminal.table(("PIPELINE", "EVENTS", "ACTED", "FILTERED", "FAILED"), [row])
    if ended.halted:
        terminal.note(ended.halted, style="red")
