"""Options by which commands choose dead letters; the same words for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

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
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Every = Annotated[bool, typer.Option("--all", help="All of them, where there is no filter.")]

Filters = dict[str, Any]
"""What was given for the options below; None where nothing was."""

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


def with_filters(body: Callable[..., Exit | None]) -> Callable[..., Exit | None]:
    """The command `body(terminal, filters, …)` with an option for each filter."""

    @wraps(body)
    def run(terminal: Terminal, **arguments: Any) -> Exit | None:
        filters = {name: arguments.pop(name) for name in _OPTIONS}
        return body(terminal, filters, **arguments)

    hints = get_type_hints(body, include_extras=True)
    first, _, *own = inspect.signature(body).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=None, annotation=hint) for name, hint in _OPTIONS.items()]
    parameters = [first, *added, *(parameter.replace(kind=kind) for parameter in own)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect honours it, typeshed has no name for it
    run.__annotations__ = {name: hint for name, hint in hints.items() if name != "filters"} | _OPTIONS
    del run.__wrapped__  # else hints are read from the body
    return run
