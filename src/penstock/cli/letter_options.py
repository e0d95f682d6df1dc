"""Options by which commands choose dead letters; the same words for all of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.filter_options import DryRun, Every, Filters, Yes, with_options

__all__ = ["DryRun", "Every", "Filters", "Ids", "Yes", "with_filters"]

Ids = Annotated[list[int] | None, typer.Argument(help="Ids that `list` shows; none: by the filters.", metavar="ID")]
Pipeline = Annotated[str | None, typer.Option(help="Only of this pipeline.")]
Topic = Annotated[str | None, typer.Option(help="Only of this topic.")]
Partition = Annotated[int | None, typer.Option(min=0, help="Only of this partition.")]
Stage = Annotated[str | None, typer.Option(help="Only that failed in this stage.")]
Status = Annotated[str | None, typer.Option(help="Only in this status: new, replaying, replayed, parked, discarded.")]
Error = Annotated[str | None, typer.Option(help="Only with this text in the error's code or message.")]
Fingerprint = Annotated[str | None, typer.Option(help="Only of this kind of failure.")]
Since = Annotated[
    str | None, typer.Option(help="Only that failed last at or after this time, or within so long (2h, 7d).")
]
Until = Annotated[str | None, typer.Option(help="Only that failed last before this time.")]
Text = Annotated[str | None, typer.Option(help="Only with this text in the error, key or value.")]

_OPTIONS: dict[str, Any] = {
    "pipeline": Pipeline,
    "topic": Topic,
    "partition": Partition,
    "stage": Stage,
    "status": Status,
    "error": Error,
    "fingerprint": Fingerprint,
    "since": Since,
    "until": Until,
    "text": Text,
}


with_filters = with_options(_OPTIONS)
"""The command `body(terminal, filters, …)` with an option for each filter."""
