"""`penstock status`: what pipelines are doing, and how far behind they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError
from penstock.core.status import PipelineStatus


def register(app: typer.Typer) -> None:
    command(app, "status")(status)


def status(
    terminal: Terminal,
    pipeline: Annotated[str | None, typer.Argument(help="Only this pipeline.")] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", help="Pipeline files: their cluster is asked for committed offsets and ends."),
    ] = None,
) -> Exit | None:
    """Show states, partitions, owners and lag of pipelines, as their instances last told the store."""
    from penstock.service.opening import opened_store
    from penstock.service.status import pipeline_statuses, with_lag

    with opened_store() as store:
        statuses = pipeline_statuses(store, pipeline) if store is not None else []
    if pipeline is not None and not statuses:
        raise ConfigError("the store knows no such pipeline", received=pipeline, hint="penstock status lists them")
    if config:
        from penstock.service.validation import load_specs

        for complaint in with_lag(statuses, load_specs(config)):
            terminal.note(f"no figures from Kafka: {complaint}", style="yellow")
    if terminal.as_json:
        terminal.data([each.as_dict() for each in statuses])
    else:
        _show(terminal, statuses)
    return None


def _show(terminal: Terminal, statuses: list[PipelineStatus]) -> None:
    if not statuses:
        terminal.line("no pipeline has run with this store yet")
        return
    columns = ("PIPELINE", "STATE", "PARTITIONS", "LAG", "EVENTS", "FAILURES", "DEAD LETTERS", "REASON")
    rows = []
    for each in statuses:
        lags = [p.lag for p in each.partitions if p.lag is not None]
        lag = sum(lags) if lags else ""
        owned = sum(p.owner is not None for p in each.partitions)
        partitions = f"{owned}/{len(each.partitions)} owned" if each.partitions else ""
        figures = (each.events, each.failures, each.dead_letters)
        rows.append((each.pipeline, each.state, partitions, lag, *figures, each.reason or ""))
    terminal.table(columns, rows)
    if len(statuses) == 1 and statuses[0].partitions:
        terminal.line()
        places = [(p.topic, p.partition, p.committed, p.end, p.lag, p.owner) for p in statuses[0].partitions]
        terminal.table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OWNER"), places)
