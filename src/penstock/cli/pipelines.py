"""`penstock pipelines`: what pipelines should do, on every instance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from penstock.store import Store

Names = Annotated[list[str] | None, typer.Argument(help="Pipelines.", metavar="NAME...")]
All = Annotated[bool, typer.Option("--all", help="All pipelines the store knows.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; shown by `status` and kept in the history.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until running instances have obeyed.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for running instances.")]

Change = Callable[..., dict[str, int]]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Pause, resume, stop and restart pipelines, on every instance.", no_args_is_help=True)
    for name, body in (
        ("list", list_pipelines),
        ("pause", pause),
        ("resume", resume),
        ("stop", stop),
        ("restart", restart),
        ("rate-limit", rate_limit),
    ):
        command(group, name)(body)
    app.add_typer(group, name="pipelines")


def list_pipelines(terminal: Terminal) -> Exit | None:
    """List pipelines: what they do, what they should do, who said so, and which instances run them."""
    from penstock.service.opening import opened_store
    from penstock.service.pipelines import list_pipelines as listed

    with opened_store() as store:
        views = listed(store) if store is not None else []
    if terminal.as_json:
        terminal.data([view.as_dict() for view in views])
        return None
    if not views:
        terminal.line("no pipeline has run with this store yet")
        return None
    columns = ("PIPELINE", "STATE", "DESIRED", "SINCE", "RATE LIMIT", "INSTANCES", "REASON")
    terminal.table(
        columns,
        ((v.pipeline, v.state, v.desired, v.set_at, _rate(v.rate_limit), len(v.instances), v.reason) for v in views),
    )
    return None


def pause(
    terminal: Terminal,
    names: Names = None,
    everything: All = False,
    reason: Reason = None,
    no_wait: NoWait = False,
    timeout: Timeout = 20.0,
) -> Exit | None:
    """Run nothing more: what is under way is finished and committed, the partitions are kept. It outlives restarts."""
    from penstock.service import pipelines

    return _change(terminal, names, pipelines.pause, everything, reason, None if no_wait else timeout)


def stop(
    terminal: Terminal,
    names: Names = None,
    everything: All = False,
    reason: Reason = None,
    no_wait: NoWait = False,
    timeout: Timeout = 20.0,
) -> Exit | None:
    """Finish what is under way and leave the consumer group, on every instance, until resumed. It outlives restarts."""
    from penstock.service import pipelines

    return _change(terminal, names, pipelines.stop, everything, reason, None if no_wait else timeout)


def restart(
    terminal: Terminal,
    names: Names = None,
    everything: All = False,
    reason: Reason = None,
    no_wait: NoWait = False,
    timeout: Timeout = 20.0,
) -> Exit | None:
    """Leave the group, close the action and begin anew; also brings back what is paused, stopped or failed."""
    from penstock.service import pipelines

    return _change(terminal, names, pipelines.restart, everything, reason, None if no_wait else timeout)


def resume(
    terminal: Terminal,
    names: Names = None,
    everything: All = False,
    reason: Reason = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Step over the event at which failure_mode THROW stopped.")
    ] = False,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", help="With --skip: the pipeline's file; absent: as it last ran."),
    ] = None,
    no_wait: NoWait = False,
    timeout: Timeout = 20.0,
) -> Exit | None:
    """Run again what is paused, stopped or failed; a failed pipeline tries its event again, or steps over it."""
    from penstock.service import pipelines

    skipped: list[dict[str, Any]] = []
    if skip:
        skipped = _skip(names or [], config or [], everything=everything)
    for event in skipped:
        terminal.note(f"skipped {event['topic']}/{event['partition']}@{event['offset']}; its dead letter remains")
    return _change(terminal, names, pipelines.resume, everything, reason, None if no_wait else timeout, skipped=skipped)


def rate_limit(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(help="The pipeline.", metavar="NAME")],
    rate: Annotated[
        str, typer.Argument(help="Events over all instances, as 100/s or 6000/m; none; or default: as the spec says.")
    ],
    no_wait: NoWait = False,
    timeout: Timeout = 20.0,
) -> Exit | None:
    """Limit how many events a pipeline takes, from now on; it outlives restarts and is stronger than the spec."""
    from penstock.core.durations import parse_rate
    from penstock.service import pipelines

    try:
        wanted = {"none": 0.0, "default": None}[rate] if rate in ("none", "default") else parse_rate(rate)
    except ValueError as error:
        raise ConfigError(str(error), received=rate, allowed="100/s, 6000/m, none, default") from None

    def rate_limit(store: Store, names: list[str], *, by: str, reason: str | None) -> dict[str, int]:  # noqa: ARG001 - as the other changes
        return pipelines.limit_rate(store, names[0], wanted, by=by)

    return _change(terminal, [name], rate_limit, False, None, None if no_wait else timeout)


def _change(
    terminal: Terminal,
    names: list[str] | None,
    change: Change,
    everything: bool,
    reason: str | None,
    wait: float | None,
    **more: Any,
) -> Exit | None:
    """Say it in the store, wait until instances have obeyed, and show how the pipelines are then."""
    from penstock.service import pipelines
    from penstock.service.audit import by_command

    word = change.__name__.replace("_", "-")

    with _store() as store:
        chosen = pipelines.chosen_pipelines(store, names or [], everything=everything)
        revisions: dict[str, int] = {}
        for name in chosen:
            with by_command(store, f"pipelines.{word}", f"pipeline/{name}", {"reason": reason} if reason else None):
                revisions |= change(store, [name], by=pipelines.person(), reason=reason)
        if wait is not None:
            pipelines.wait_obeyed(store, revisions, wait)
        views = pipelines.list_pipelines(store, chosen)
    if terminal.as_json:
        terminal.data([view.as_dict() | {key: value for key, value in more.items() if value} for view in views])
        return None
    for view in views:
        count = len(view.instances)
        where = f"{count} instance{'' if count == 1 else 's'}" if count else "no instance runs it now"
        limit = f", rate limit {_rate(view.rate_limit)}" if view.rate_limit is not None else ""
        terminal.line(f"{view.pipeline}: {view.desired}{limit} ({where})")
    return None


def _skip(names: list[str], files: list[Path], *, everything: bool) -> list[dict[str, Any]]:
    from penstock.service import pipelines
    from penstock.service.offsets import cluster_of
    from penstock.service.skipping import skip_failed
    from penstock.service.specs import current_spec

    if everything or len(names) != 1:
        raise ConfigError("--skip is about one pipeline", received=names, hint="name it")
    with _store() as store:
        pipelines.chosen_pipelines(store, names, everything=False)
        spec = current_spec(names[0], files, store)
        return skip_failed(store, cluster_of(spec), spec, by=pipelines.person())


def _store() -> AbstractContextManager[Store]:
    from contextlib import contextmanager

    from penstock.service.opening import opened_store

    @contextmanager
    def existing() -> Iterator[Store]:
        with opened_store() as store:
            if store is None:
                raise ConfigError("no pipeline has run with this store yet", hint="`penstock run` makes it")
            yield store

    return existing()


def _rate(limit: float | str | None) -> str:
    return f"{limit:g}/s" if isinstance(limit, float) else limit or ""
