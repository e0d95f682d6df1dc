"""`penstock work-orders`: what messages asked for, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli import work_order_options as given
from penstock.cli.command import command
from penstock.cli.exits import Exit
from penstock.cli.filter_options import DryRun, Every, Filters, Yes
from penstock.cli.terminal import Terminal
from penstock.cli.work_order_picture import show_jobs, show_list, show_one
from penstock.core.errors import ConfigError

if TYPE_CHECKING:
    from penstock.service.bulk_jobs import Kind
    from penstock.store import Store

_COUNTED = 10_000
"""Work orders that are counted below a list; more would take longer than the list."""
_WORDS = {"retry": ("Retry", "retried"), "cancel": ("Cancel", "cancelled")}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Work orders and their runs.", no_args_is_help=True)
    command(group, "list")(list_orders)
    command(group, "show")(show)
    command(group, "retry")(retry)
    command(group, "cancel")(cancel)
    command(group, "export")(export)
    command(group, "jobs")(jobs)
    app.add_typer(group, name="work-orders")


@given.with_filters
def list_orders(
    terminal: Terminal,
    filters: Filters,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only this work order; repeat it for several.")] = None,
    order: Annotated[
        Literal["created", "activity"], typer.Option(help="What the newest are the first by.")
    ] = "created",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 10,
    page: Annotated[int, typer.Option(min=1, help="Which page of so many.")] = 1,
) -> Exit | None:
    """List work orders, the newest first: those with activity within 30 days, unless a time is given."""
    from penstock.service.opening import opened_store
    from penstock.service.work_order_filters import which_work_orders
    from penstock.service.work_orders import list_work_orders, work_orders_as_data

    asked = given.asked(filters, ids)
    with opened_store() as store:
        if store is None:
            rows, data, count = [], [], None
        else:
            which = which_work_orders(store, asked)
            rows = list_work_orders(store, which, order=order, limit=limit, skip=(page - 1) * limit)
            data = work_orders_as_data(store, rows)
            count = None if terminal.as_json else store.history.count(which, cap=_COUNTED)
    if terminal.as_json:
        terminal.data(data)
    else:
        show_list(terminal, rows, data, count)
    return None


def show(
    terminal: Terminal,
    identifier: Annotated[str, typer.Argument(help="Id of a work order, or of one of its runs.", metavar="ID")],
    project: Annotated[str | None, typer.Option(help="Only if it is of this project.")] = None,
) -> Exit | None:
    """Show one work order with its input, runs, steps and logs."""
    from penstock.service.work_order_filters import find_project
    from penstock.service.work_orders import show_work_order

    with _store() as store:
        owner = find_project(store, project)
        data = show_work_order(store, identifier, owner.id if owner else None)
    if terminal.as_json:
        terminal.data(data)
    else:
        show_one(terminal, data)
    return None


@given.with_filters
def retry(
    terminal: Terminal,
    filters: Filters,
    ids: given.Ids = None,
    step: Annotated[str | None, typer.Option("--from", help="Begin at this step, with what it was given.")] = None,
    every: Every = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    detach: given.Detach = False,
) -> Exit | None:
    """Run work orders again, from the start or from a step: one, or all that match, oldest first."""
    from penstock.service.audit import by_command
    from penstock.service.pipelines import person
    from penstock.service.work_order_filters import find_project
    from penstock.service.work_orders import retry_one

    if _is_one(filters, ids) and ids and not dry_run:
        with _store() as store:
            owner = find_project(store, filters["project"])
            with by_command(store, "work_orders.retry", f"work-order/{ids[0]}", {"step": step}) as change:
                order, run = retry_one(store, ids[0], by=person(), step=step, project_id=owner.id if owner else None)
                change.data["run"] = run
        result = {"matched": 1, "retried": 1, "skipped": 0, "runs": [run], "job": None}
        _tell(terminal, result, f"{order} runs again as {run}")
        return None
    return _in_bulk(terminal, "retry", given.asked(filters, ids), step, every, dry_run=dry_run, yes=yes, detach=detach)


@given.with_filters
def cancel(
    terminal: Terminal,
    filters: Filters,
    ids: given.Ids = None,
    every: Every = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    detach: given.Detach = False,
) -> Exit | None:
    """Cancel the unfinished runs of a work order, or one run, or all that match and have not begun."""
    from penstock.service.audit import by_command
    from penstock.service.work_order_filters import find_project
    from penstock.service.work_orders import cancel_one

    if _is_one(filters, ids) and ids and not dry_run:
        with _store() as store:
            owner = find_project(store, filters["project"])
            with by_command(store, "work_orders.cancel", f"work-order/{ids[0]}") as change:
                order, runs = cancel_one(store, ids[0], owner.id if owner else None)
                change.data["runs"] = runs
        result = {"matched": 1, "cancelled": 1, "skipped": 0, "runs": runs, "job": None}
        _tell(terminal, result, f"{order} is cancelled: {len(runs)} runs")
        return None
    return _in_bulk(terminal, "cancel", given.asked(filters, ids), None, every, dry_run=dry_run, yes=yes, detach=detach)


@given.with_filters
def export(
    terminal: Terminal,
    filters: Filters,
    file: Annotated[Path, typer.Argument(help="Zip file to write.", dir_okay=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> Exit | None:
    """Write work orders with runs, steps, logs and dataclips to a zip; all of 30 days, where there is no filter."""
    from penstock.service.audit import by_command
    from penstock.service.pipelines import person
    from penstock.service.work_order_export import export_work_orders
    from penstock.service.work_order_filters import filter_as_json, which_work_orders

    if file.exists() and not force:
        raise ConfigError(f"{file} exists", received=str(file), hint="give another name, or --force")
    with _store() as store:
        which = which_work_orders(store, given.asked(filters))
        total = store.history.count(which).number
        said = {"which": filter_as_json(which), "file": file.name}
        with (
            by_command(store, "work_orders.export", "work-orders", said),
            terminal.progress("exporting", total) as progress,
        ):
            counts = export_work_orders(store, which, file, by=person(), progress=progress)
    result = {"file": str(file)} | {name.partition(".")[0]: number for name, number in counts.items()}
    _tell(terminal, result, f"{_orders(counts['work_orders.csv'])} written to {file}")
    return None


def jobs(
    terminal: Terminal,
    job_id: Annotated[str | None, typer.Argument(help="Only this job.", metavar="ID")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the job; what is done stays done.")] = False,
) -> Exit | None:
    """Show retries and cancellations of many work orders, and exports, the newest first, with their progress."""
    from penstock.service.audit import by_command
    from penstock.service.bulk_jobs import list_jobs, stop_job
    from penstock.service.work_order_shapes import job_as_dict

    if stop and job_id is None:
        raise ConfigError("no job is named", hint="give the id that `penstock work-orders jobs` shows")
    with _store() as store:
        if stop and job_id is not None:
            with by_command(store, "work_orders.stop", f"job/{job_id}"):
                stop_job(store, job_id)
        found = [job_as_dict(job) for job in list_jobs(store, job_id)]
    if terminal.as_json:
        terminal.data(found)
    else:
        show_jobs(terminal, found)
    return None


def _in_bulk(
    terminal: Terminal,
    kind: Kind,
    asked: Any,
    step: str | None,
    every: bool,
    *,
    dry_run: bool,
    yes: bool,
    detach: bool,
) -> Exit | None:
    import time

    from penstock.service.audit import by_command
    from penstock.service.bulk_jobs import begin, check_step, follow, matching
    from penstock.service.pipelines import person
    from penstock.service.work_order_filters import filter_as_json, which_work_orders
    from penstock.service.work_order_shapes import job_as_dict

    if not asked.given and not every:
        raise ConfigError("no work orders are named", hint="give ids, filters such as --workflow, or --all")
    question, done = _WORDS[kind]
    with _store() as store:
        which = which_work_orders(store, asked)
        if step is not None:
            check_step(store, which.workflow_id, step)
        total = matching(store, kind, which)
        if dry_run or not total:
            result = {"matched": total, done: 0, "skipped": 0, "runs": [], "job": None}
            _tell(terminal, result, f"{_orders(total)} would be {done}")
            return None
        terminal.confirm(f"{question} {_orders(total)}?", yes=yes)
        asked_for = {"which": filter_as_json(which), "step": step, "work_orders": total}
        with by_command(store, f"work_orders.{kind}", "work-orders", asked_for) as change:
            job = begin(store, kind, which, total=total, by=person(), step=step)
            change.data["job"] = job.id
        if not detach:
            with terminal.progress(question.lower(), total) as progress:
                job = follow(store, job.id, progress, time.sleep)
    result = {"matched": total, done: job.done, "skipped": job.skipped, "runs": [], "job": job_as_dict(job)}
    said = f"{job.done} of {_orders(total)} {done}, {job.skipped} skipped"
    _tell(terminal, result, f"job {job.id} waits for an instance" if detach else said)
    return None


def _orders(number: int) -> str:
    return f"{number} work order{'' if number == 1 else 's'}"


def _is_one(filters: Filters, ids: list[str] | None) -> bool:
    """One id and nothing else but its project: done at once."""
    return ids is not None and len(ids) == 1 and not any(filters[name] for name in filters if name != "project")


def _tell(terminal: Terminal, result: dict[str, Any], text: str) -> None:
    if terminal.as_json:
        terminal.data(result)
    else:
        terminal.line(text)


@contextmanager
def _store() -> Iterator[Store]:
    from penstock.service.opening import opened_store

    with opened_store() as store:
        if store is None:
            raise ConfigError("there are no work orders", hint="this store does not exist yet")
        yield store
