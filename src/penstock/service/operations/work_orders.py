"""Work orders: looked into, run again, cancelled, one by one or many at once, and exported."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

from penstock.core.errors import ConfigError, Unavailable
from penstock.core.ids import is_id
from penstock.service import bulk_jobs
from penstock.service.access import Actor, NotFound, Right, allows, require, require_somewhere
from penstock.service.audit import audited
from penstock.service.operations.desk import Desk
from penstock.service.operations.paging import Page, checked_limit, cursor, place_of
from penstock.service.operations.scoping import require_of
from penstock.service.operations.work_order_filtering import chosen, filter_of
from penstock.service.operations.work_order_models import (
    CancelView,
    CountView,
    DataclipView,
    Kind,
    RetryView,
    WorkOrderChoice,
    WorkOrderDetail,
    WorkOrderItem,
    WorkOrderJob,
    WorkOrderOrder,
    WorkOrderPlan,
    WorkOrderQuery,
)
from penstock.service.operations.work_order_views import Hiding, detail_of, item_of, job_of
from penstock.service.work_order_export import export_work_orders
from penstock.service.work_order_filters import filter_as_json
from penstock.service.work_order_shapes import Names
from penstock.service.work_orders import cancel_one, not_found, retry_one
from penstock.store.work import history_model as rows
from penstock.store.work.model import BulkJobRow, NotThere

_COUNTED: Final = 10_000
"""Work orders that are counted beside a list; more would take longer than the list."""
_EXPORTED: Final = 20_000
"""Work orders of one export that somebody waits for; the command line has no limit."""
_EXPORTING: Final = threading.BoundedSemaphore(2)
"""Exports at once: each has a thread that requests share, and the processor, for as long as it takes."""


class ExportsBusy(Unavailable):
    """Others are exporting."""

    code = "busy"


def list_work_orders(
    desk: Desk,
    actor: Actor,
    query: WorkOrderQuery,
    *,
    order: WorkOrderOrder = "created",
    limit: int = 10,
    after: str | None = None,
) -> Page[WorkOrderItem]:
    """Newest first, by when they were received or by what happened last."""
    which = filter_of(desk, actor, "work_orders.view", query)
    place = place_of(after, int, str)
    if place is not None and not is_id(place[1]):
        raise NotFound("`after` is of no work order", received=after)
    behind = rows.WorkOrderCursor(*place) if place else None
    found = desk.store.history.list(which, order=order, limit=checked_limit(limit) + 1, after=behind)
    more = len(found) > limit
    names = Names.of(desk.store) if found else Names({}, {})
    items = [item_of(row, names) for row in found[:limit]]
    return Page(items=items, next=cursor(*found[limit - 1].cursor(order)) if more else None)


def count_work_orders(desk: Desk, actor: Actor, query: WorkOrderQuery, *, cap: int = _COUNTED) -> CountView:
    """How many there are; where they must be searched for, at most 50."""
    found = desk.store.history.count(filter_of(desk, actor, "work_orders.view", query), cap=cap)
    return CountView(number=found.number, capped=found.is_capped)


def get_work_order(desk: Desk, actor: Actor, identifier: str) -> WorkOrderDetail:
    """One with runs, steps, logs and dataclips; the id may also be that of one of its runs."""
    return detail_of(shown(desk, actor, identifier), Names.of(desk.store), desk.masking)


def get_dataclip(desk: Desk, actor: Actor, identifier: str, dataclip_id: str) -> DataclipView:
    """An input or result of a work order, whole."""
    found = shown(desk, actor, identifier)
    clip = found.dataclips.get(dataclip_id.lower())
    if clip is None:
        raise NotFound("the work order has no such dataclip", received=dataclip_id)
    return Hiding.of(found, desk.masking).view(clip, whole=True)


def retry(desk: Desk, actor: Actor, identifier: str, *, step: str | None = None) -> RetryView:
    """Run a work order again, from its start or from a step, or one of its runs."""
    row = order_of(desk, actor, identifier, "work_orders.operate")
    subject, data = f"work-order/{row.id}", {"step": step, "asked": identifier}
    with audited(
        desk.store, actor, "work_orders.retry", subject, project=row.project_id, before=row.state, data=data
    ) as change:
        order, run = retry_one(desk.store, identifier, by=actor.name, step=step, project_id=row.project_id)
        change.data["run"] = run
    return RetryView(work_order=order, run=run)


def cancel(desk: Desk, actor: Actor, identifier: str) -> CancelView:
    """Cancel what is unfinished of a work order, or one of its runs, also while it is executed."""
    row = order_of(desk, actor, identifier, "work_orders.operate")
    subject, data = f"work-order/{row.id}", {"asked": identifier}
    with audited(
        desk.store, actor, "work_orders.cancel", subject, project=row.project_id, before=row.state, data=data
    ) as change:
        order, gone = cancel_one(desk.store, identifier, row.project_id)
        change.data["runs"] = gone
    return CancelView(work_order=order, runs=gone)


def plan(desk: Desk, actor: Actor, kind: Kind, choice: WorkOrderChoice, *, step: str | None = None) -> WorkOrderPlan:
    """How many a job would take; nothing is changed. Raises unless all of them may be taken."""
    return WorkOrderPlan(work_orders=_planned(desk, actor, kind, choice, step)[1])


def start(desk: Desk, actor: Actor, kind: Kind, choice: WorkOrderChoice, *, step: str | None = None) -> WorkOrderJob:
    """Begin a job, in the background: any instance does it, a chunk at a time, oldest first."""
    which, total = _planned(desk, actor, kind, choice, step)
    if not total:
        raise NotFound("there are no such work orders", hint="the filter takes none")
    data: dict[str, Any] = {"which": filter_as_json(which), "step": step, "work_orders": total}
    if len(which.ids) > 20:
        data["which"]["ids"] = [*which.ids[:20], f"and {len(which.ids) - 20} more"]
    project = which.project_id
    with audited(desk.store, actor, f"work_orders.{kind}", "work-orders", project=project, data=data) as change:
        job = bulk_jobs.begin(desk.store, kind, which, total=total, by=actor.name, step=step)
        change.data["job"] = job.id
    return job_of(job)


def jobs(desk: Desk, actor: Actor) -> list[WorkOrderJob]:
    """Retries, cancellations and exports, newest first."""
    require_somewhere(actor, "work_orders.view")
    return [job_of(row) for row in desk.store.bulk_jobs.list() if _may_see(actor, row)]


def job(desk: Desk, actor: Actor, job_id: str) -> WorkOrderJob:
    """One of them."""
    require_somewhere(actor, "work_orders.view")
    return job_of(_job(desk, actor, job_id))


def stop_job(desk: Desk, actor: Actor, job_id: str) -> WorkOrderJob:
    """End it between two chunks; what is done stays done."""
    require_somewhere(actor, "work_orders.operate")
    row = _job(desk, actor, job_id)
    project = row.request.get("filter", {}).get("project_id")
    require(actor, "work_orders.operate", project)
    with audited(desk.store, actor, "work_orders.stop", f"job/{row.id}", project=project, before=row.state):
        desk.store.bulk_jobs.stop(row.id)
    return job(desk, actor, job_id)


def export(desk: Desk, actor: Actor, query: WorkOrderQuery, path: Path) -> dict[str, int]:
    """Write all that match to a zip; how many rows each of its files has."""
    which = filter_of(desk, actor, "work_orders.view", query)
    if desk.settings.masking.rules:
        # The files hold inputs as they came.
        require(actor, "events.reveal", which.project_id)
    if desk.store.history.count(which, cap=_EXPORTED).is_capped:
        raise ConfigError(
            f"more than {_EXPORTED:,} work orders match",
            allowed=_EXPORTED,
            hint="narrow it down, or use `penstock work-orders export`",
        )
    data = {"which": filter_as_json(which)}
    project = which.project_id
    if not _EXPORTING.acquire(blocking=False):
        raise ExportsBusy("two exports are being made", hint="try again when they are done")
    try:
        with audited(desk.store, actor, "work_orders.export", "work-orders", project=project, data=data) as change:
            counts = export_work_orders(desk.store, which, path, by=actor.name)
            change.data["rows"] = counts
    finally:
        _EXPORTING.release()
    return counts


def order_of(desk: Desk, actor: Actor, identifier: str, right: Right = "work_orders.view") -> rows.WorkOrderRow:
    """The work order of an id, or of a run's, if the actor has the right to it."""
    require_somewhere(actor, right)
    missing = NotFound(not_found(identifier).message, received=identifier, hint="GET /api/v1/work-orders lists them")
    run = desk.store.history.run(identifier)
    row = desk.store.history.get(run.run.work_order_id if run else identifier)
    if row is None:
        raise missing
    require_of(actor, "work_orders.view", right, row.project_id, missing)
    return row


def shown(desk: Desk, actor: Actor, identifier: str) -> rows.WorkOrderDetail:
    """All of a work order, if the actor may see it."""
    row = order_of(desk, actor, identifier)
    found = desk.store.history.show(row.id)
    if found is None:
        raise NotFound(not_found(identifier).message, received=identifier)
    desk.note_read(actor, "work_orders.read", f"work-order/{row.id}", row.project_id)
    return found


def _planned(
    desk: Desk, actor: Actor, kind: Kind, choice: WorkOrderChoice, step: str | None
) -> tuple[rows.WorkOrderFilter, int]:
    which = chosen(desk, actor, "work_orders.operate", choice)
    if step is not None and which.workflow_id is None:
        raise ConfigError("a step is of one workflow", received=step, hint="say which with `workflow` in the filter")
    try:
        if step is not None:
            bulk_jobs.check_step(desk.store, which.workflow_id, step)
        return which, bulk_jobs.matching(desk.store, kind, which)
    except NotThere as error:
        raise NotFound(error.message, received=error.received, allowed=error.allowed) from None
    except bulk_jobs.NotAllOfThem as error:
        error.hint = "choose only states in which it can be done"
        raise


def _job(desk: Desk, actor: Actor, job_id: str) -> BulkJobRow:
    row = desk.store.bulk_jobs.get(job_id.lower()) if is_id(job_id) else None
    if row is None or not _may_see(actor, row):
        raise NotFound("no such job", received=job_id, hint="GET /api/v1/work-orders/jobs lists them")
    return row


def _may_see(actor: Actor, row: BulkJobRow) -> bool:
    return allows(actor, "work_orders.view", row.request.get("filter", {}).get("project_id"))
