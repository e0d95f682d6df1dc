"""Work orders as faces list, show, retry and cancel them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock.core.errors import ConfigError
from penstock.service.work_order_shapes import (
    Names,
    dataclip_as_dict,
    run_detail_as_dict,
    work_order_as_dict,
)
from penstock.store import Store
from penstock.store.work.history_model import Order, WorkOrderFilter, WorkOrderRow
from penstock.store.work.model import NotThere
from penstock.store.work.orders import Why
from penstock.workflows.retrying import check_room
from penstock.workflows.states import derived

_PAGE: Final = 500
_REFUSED: Final[dict[Why, tuple[str, str]]] = {
    "missing": ("it is not there any more", "penstock work-orders list shows what is"),
    "deleted": ("its workflow was deleted", "apply the workflow again"),
    "unfinished": ("it has not ended yet", "wait for its end, or cancel it"),
    "wiped": ("its input was wiped", "the project's retention says how long inputs are kept"),
    "no_step": ("it never came to that step, or the workflow has no such step", "retry it from the start"),
}


class RetryRefused(ConfigError):
    """A work order cannot be run again."""

    code = "retry-refused"


class NothingToCancel(ConfigError):
    """No run of a work order is waiting or at work."""

    code = "nothing-to-cancel"


def list_work_orders(
    store: Store, which: WorkOrderFilter, *, order: Order = "created", limit: int = 10, skip: int = 0
) -> list[WorkOrderRow]:
    """Newest first, at most `limit`."""
    rows = store.history.list(which, order=order, limit=min(_PAGE, limit), skip=skip)
    while rows and len(rows) < limit:
        page = store.history.list(which, order=order, limit=min(_PAGE, limit - len(rows)), after=rows[-1].cursor(order))
        if not page:
            break
        rows += page
    return rows


def work_orders_as_data(store: Store, rows: list[WorkOrderRow]) -> list[dict[str, Any]]:
    names = Names.of(store) if rows else Names({}, {})
    return [work_order_as_dict(row, names) for row in rows]


def oldest_first(store: Store, which: WorkOrderFilter) -> Iterator[list[WorkOrderRow]]:
    """All of them, in pages; each is read when it is asked for."""
    cursor = None
    while page := store.history.list(which, limit=_PAGE, after=cursor, oldest_first=True):
        yield page
        cursor = page[-1].cursor()


def show_work_order(store: Store, identifier: str, project_id: str | None = None) -> dict[str, Any]:
    """A work order with runs, steps, logs and dataclips; the id may also be that of one of its runs."""
    order, _ = _found(store, identifier, project_id)
    found = store.history.show(order.id)
    if found is None:
        raise not_found(identifier)
    return work_order_as_dict(found.row, Names.of(store)) | {
        "runs": [run_detail_as_dict(detail) for detail in found.runs],
        "dataclips": {clip: dataclip_as_dict(row) for clip, row in found.dataclips.items()},
    }


def retry_one(
    store: Store, identifier: str, *, by: str, step: str | None = None, project_id: str | None = None
) -> tuple[str, str]:
    """Run a work order again, from its start or from a step, or one of its runs; the ids of work order and run."""
    order, run_id = _found(store, identifier, project_id)
    project = store.projects.get(order.project_id)
    if project is not None:
        check_room(store.database, project)
    if run_id is not None:
        answer = store.orders.retry_run(run_id, step=step, by=by)
    else:
        (answer,) = store.orders.retry([order.id], step=step, by=by)
    if answer.why is not None or answer.run_id is None:
        reason, hint = _REFUSED[answer.why or "missing"]
        raise RetryRefused(f"{identifier} cannot be retried: {reason}", received=step, hint=hint)
    return order.id, answer.run_id


def cancel_one(store: Store, identifier: str, project_id: str | None = None) -> tuple[str, list[str]]:
    """Cancel what is unfinished of a work order, or one of its runs, also while it is executed; the ids of both."""
    order, run_id = _found(store, identifier, project_id)
    if run_id is not None:
        gone = store.orders.cancel_runs(derived, [run_id], in_flight=True)
    else:
        gone = store.orders.cancel(derived, [order.id], in_flight=True)
    if not gone:
        raise NothingToCancel(f"{identifier} has no run that waits or is executed", received=order.state)
    return order.id, gone


def _found(store: Store, identifier: str, project_id: str | None) -> tuple[WorkOrderRow, str | None]:
    """The work order, and the run if the id is that of one."""
    run = store.history.run(identifier)
    order = store.history.get(run.run.work_order_id if run else identifier)
    if order is None or (project_id is not None and order.project_id != project_id):
        raise not_found(identifier)
    return order, run.run.id if run else None


def not_found(identifier: str) -> NotThere:
    """The same whether the id is of nothing, malformed, or of another project: ids tell nothing."""
    return NotThere(
        "there is no such work order or run", received=identifier, hint="penstock work-orders list shows the ids"
    )
