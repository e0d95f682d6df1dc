"""Options by which commands choose work orders; the same words for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.filter_options import Filters, with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.service.work_order_filters import Asked

Ids = Annotated[
    list[str] | None,
    typer.Argument(help="Ids of work orders, or of a run; none: by the filters.", metavar="ID"),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Leave it to the instances that run, and do not wait for the end.")
]

_OPTIONS: dict[str, Any] = {
    "project": Annotated[str | None, typer.Option(help="Only of this project: its name or id.")],
    "workflow": Annotated[str | None, typer.Option(help="Only of this workflow: its name, PROJECT/NAME or id.")],
    "trigger": Annotated[
        str | None, typer.Option(help="Only from this trigger: PROJECT/WORKFLOW/NAME, an end of that, or its id.")
    ],
    "state": Annotated[
        list[str] | None,
        typer.Option(
            help="Only in this state: rejected, pending, running, success, failed, crashed, cancelled, killed, "
            "exception, lost. Several: repeat it, or with commas."
        ),
    ],
    "received_after": Annotated[
        str | None, typer.Option(help="Only received at or after this time, or within 2h, 7d.")
    ],
    "received_before": Annotated[str | None, typer.Option(help="Only received before this time.")],
    "active_after": Annotated[
        str | None, typer.Option(help="Only with activity at or after this time, or within 2h, 7d; default 30d.")
    ],
    "active_before": Annotated[str | None, typer.Option(help="Only whose last activity was before this time.")],
    "search": Annotated[
        str | None,
        typer.Option(help="Only with these words, or words that begin so, in input, name or logs; or an id."),
    ],
    "within": Annotated[
        list[str] | None, typer.Option("--in", help="Where to search: id, body, name, log; default: in all of them.")
    ],
    "any_time": Annotated[bool | None, typer.Option("--any-time", help="Not only those active within 30 days.")],
}

with_filters = with_options(_OPTIONS)
"""The command `body(terminal, filters, …)` with an option for each filter."""


def asked(filters: Filters, ids: Sequence[str] | None = None) -> Asked:
    """What was given, for the service."""
    from penstock.service.work_order_filters import Asked

    return Asked(**filters | {"any_time": bool(filters["any_time"]), "ids": ids or None})
