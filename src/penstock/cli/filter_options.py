"""Options that several commands share to choose what they work on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Every = Annotated[bool, typer.Option("--all", help="All of them, where there is no filter.")]

Filters = dict[str, Any]
"""What was given for the options of a command; None where nothing was."""

Body = Callable[..., Exit | None]


def with_options(options: dict[str, Any]) -> Callable[[Body], Body]:
    """The command `body(terminal, filters, …)` with these options, by the names of the filters."""

    def decorate(body: Body) -> Body:
        @wraps(body)
        def run(terminal: Terminal, **arguments: Any) -> Exit | None:
            filters = {name: arguments.pop(name) for name in options}
            return body(terminal, filters, **arguments)

        hints = get_type_hints(body, include_extras=True)
        first, _, *own = inspect.signature(body).parameters.values()
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, kind, default=None, annotation=hint) for name, hint in options.items()]
        parameters = [first, *added, *(parameter.replace(kind=kind) for parameter in own)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect honours it, typeshed has no name for it
        run.__annotations__ = {name: hint for name, hint in hints.items() if name != "filters"} | options
        del run.__wrapped__  # else hints are read from the body
        return run

    return decorate
