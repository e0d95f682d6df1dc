"""`penstock offsets`: where a pipeline's group stands, and setting it somewhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.service.offsets import Move, Target

Config = Annotated[
    list[Path] | None,
    typer.Option("--config", "-c", help="The pipeline's file; absent: the pipeline as it last ran."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Offsets of pipelines' consumer groups.", no_args_is_help=True)
    command(group, "show")(show)
    command(group, "reset")(reset)
    app.add_typer(group, name="offsets")


def show(
    terminal: Terminal,
    pipeline: Annotated[str | None, typer.Argument(help="The pipeline.")] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Any consumer group instead.")] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", help="With --group: the cluster, as HOST:PORT[,HOST:PORT…].")
    ] = None,
    config: Config = None,
) -> Exit | None:
    """Show committed offset, log, lag and reader of each partition, as the cluster knows them now."""
    from penstock.kafka.admin import ClusterView
    from penstock.kafka.client import KafkaClientConfig
    from penstock.service.offsets import cluster_of, show_offsets, subscribed_topics
    from penstock.service.opening import opened_store
    from penstock.service.specs import current_spec
    from penstock.service.topics import connection_of
    from penstock.service.vacating import with_group
    from penstock.service.validation import load_specs

    if (pipeline is None) == (group is None):
        raise ConfigError("name a pipeline, or a group by --group", received=[pipeline, group])
    if pipeline is not None:
        with opened_store() as store:
            spec = with_group(current_spec(pipeline, config or [], store))
        cluster = cluster_of(spec)
        views = show_offsets(cluster, spec.group, subscribed_topics(cluster, spec))
    else:
        connection = connection_of(bootstrap, load_specs(config) if config else [])
        views = show_offsets(ClusterView(KafkaClientConfig.of(connection)), group or "")
    if terminal.as_json:
        terminal.data([view.as_dict() for view in views])
    elif not views:
        terminal.line("nothing is committed")
    else:
        columns = ("TOPIC", "PARTITION", "COMMITTED", "AHEAD", "START", "END", "LAG", "READ BY")
        rows = [(v.topic, v.partition, v.committed, v.ahead, v.start, v.end, v.lag, v.member) for v in views]
        terminal.table(columns, rows)
    return None


def reset(
    terminal: Terminal,
    pipeline: Annotated[str, typer.Argument(help="The pipeline.")],
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_time: Annotated[
        str | None, typer.Option("--to-time", help="To the first record at or after a time: ISO, or epoch ms.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", help="By so many offsets; below zero: back.")] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None,
    from_group: Annotated[str | None, typer.Option("--from-group", help="To where this group stands.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.")] = None,
    config: Config = None,
    reapply: Annotated[
        bool, typer.Option("--reapply", help="Of a pipeline into a table: set its cursor too, and write rows again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds that instances may take to leave the group.")
    ] = 30.0,
) -> Exit | None:
    """Set a pipeline's offsets; its instances leave the group meanwhile and come back. Refused where another consumer
    is in the group."""
    from penstock.service.audit import by_command
    from penstock.service.exactly_once import require_reapply
    from penstock.service.offsets import cluster_of, plan_reset, reset_offsets
    from penstock.service.opening import opened_store
    from penstock.service.specs import current_spec
    from penstock.service.vacating import refuse_others

    target = _target(to_earliest, to_latest, to_time, shift_by, to_offset, from_group)
    with opened_store() as store:
        spec = current_spec(pipeline, config or [], store)
        require_reapply(spec, reapply=reapply)
        cluster = cluster_of(spec)
        moves = plan_reset(cluster, spec, target, topic=topic, partition=partition)
        if not dry_run:
            refuse_others(cluster, spec)
            if not yes:
                _confirm(terminal, pipeline, moves)
            said = {"to": str(target), "topic": topic, "partition": partition, "reapply": reapply}
            with by_command(store, "offsets.reset", f"pipeline/{pipeline}", said) if store else nullcontext():
                moves = reset_offsets(
                    store, cluster, spec, target, topic=topic, partition=partition, timeout=timeout, reapply=reapply
                )
    if terminal.as_json:
        terminal.data({"pipeline": pipeline, "done": not dry_run, "partitions": [move.as_dict() for move in moves]})
    else:
        _show(terminal, moves)
        terminal.line("nothing was changed: this was a dry run" if dry_run else f"{pipeline}: offsets set to {target}")
    return None


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_time: str | None,
    shift_by: int | None,
    to_offset: int | None,
    from_group: str | None,
) -> Target:
    from penstock.service.offsets import Target

    given: list[Target] = []
    if to_earliest:
        given.append(Target("earliest"))
    if to_latest:
        given.append(Target("latest"))
    if to_time is not None:
        given.append(Target("time", _time(to_time)))
    if shift_by is not None:
        given.append(Target("shift", shift_by))
    if to_offset is not None:
        given.append(Target("offset", to_offset))
    if from_group is not None:
        given.append(Target("group", group=from_group))
    if len(given) != 1:
        options = ["--to-earliest", "--to-latest", "--to-time", "--shift-by", "--to-offset", "--from-group"]
        raise ConfigError("say where to, once", received=[str(target) for target in given], allowed=options)
    return given[0]


def _time(text: str) -> int:
    from penstock.core.clock import parse_time

    try:
        return int(text) if text.strip().isdecimal() else parse_time(text)
    except ValueError as error:
        raise ConfigError(str(error), received=text) from None


def _show(terminal: Terminal, moves: Sequence[Move]) -> None:
    columns = ("TOPIC", "PARTITION", "OLD", "NEW", "SKIPPED", "REPEATED")
    terminal.table(columns, ((m.topic, m.partition, m.old, m.new, m.skipped, m.repeated) for m in moves))


def _confirm(terminal: Terminal, pipeline: str, moves: Sequence[Move]) -> None:
    if terminal.as_json or not sys.stdin.isatty():
        raise ConfigError("this changes what is worked on; say --yes", hint="--dry-run shows what would happen")
    _show(terminal, moves)
    skipped, repeated = (sum(getattr(m, name) or 0 for m in moves) for name in ("skipped", "repeated"))
    if not typer.confirm(f"{pipeline}: skip {skipped} and repeat {repeated} offsets?"):
        raise typer.Abort
