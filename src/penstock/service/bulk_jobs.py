"""Retries and cancellations of many work orders: asked for at once, done in the background, a chunk at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError
from penstock.core.ids import is_id, new_id
from penstock.service.work_order_filters import filter_as_json, filter_from_json
from penstock.store import Store
from penstock.store.work.bulk import Bulk, Holder
from penstock.store.work.bulk_jobs import OPEN
from penstock.store.work.history_model import WorkOrderCursor, WorkOrderFilter
from penstock.store.work.model import BulkJobRow, NotThere
from penstock.store.work.states import ENDED, WorkOrderState
from penstock.workflows.retrying import check_room
from penstock.workflows.states import derived

Kind = Literal["retry", "cancel"]
CHUNK: Final = 100
STALE_SECONDS: Final = 60.0
"""A job whose worker was not heard of for so long is left to others; a chunk takes less than a second."""

_COUNTED: Final = 1_000
_ALLOWED: Final[dict[Kind, tuple[WorkOrderState, ...]]] = {"retry": ENDED, "cancel": ("pending",)}
_DONE: Final[dict[Kind, str]] = {"retry": "retried", "cancel": "cancelled"}


class NotAllOfThem(ConfigError):
    """Some of the work orders are in a state in which this cannot be done."""

    code = "work-order-state"


def matching(store: Store, kind: Kind, which: WorkOrderFilter) -> int:
    """How many work orders a job would take; raises unless all of them may be, and ids are all of something."""
    total = _count(store, which)
    if which.ids and total < len(which.ids):
        there = {row.id for row in store.history.list(which, limit=len(which.ids))}
        missing = [one for one in which.ids if one.lower() not in there]
        raise NotThere("there are no such work orders", received=", ".join(missing))
    fitting = _count(store, _only_allowed(kind, which))
    if fitting < total:
        raise NotAllOfThem(
            f"{total - fitting:,} of {total:,} work orders cannot be {_DONE[kind]} in the state that they are in",
            received=", ".join(which.states) or "any state",
            allowed=list(_ALLOWED[kind]),
            hint="choose states with --state; penstock work-orders list shows them",
        )
    if kind == "retry":
        _check_limits(store, which)
    return total


def begin(
    store: Store, kind: Kind, which: WorkOrderFilter, *, total: int, by: str, step: str | None = None
) -> BulkJobRow:
    """Ask for it. What is received from now on is not part of it."""
    if step is not None:
        check_step(store, which.workflow_id, step)
    now = SYSTEM.now_ms() * 1_000 + 999
    until = now if which.received_before is None else min(which.received_before, now)
    request = filter_as_json(replace(_only_allowed(kind, which), received_before=until))
    return store.bulk_jobs.add(kind, {"filter": request, "step": step}, total=total, asked_by=by)


def check_step(store: Store, workflow_id: str | None, step: str) -> None:
    """Raise unless the workflow, as it is now, has the step."""
    workflow = store.workflows.by_id(workflow_id) if workflow_id else None
    if workflow is None:
        raise ConfigError("a step is of one workflow", received=step, hint="say which with --workflow")
    snapshot = store.workflows.snapshot(workflow.snapshot_id) if workflow.snapshot_id else None
    known = [each["name"] for each in snapshot.definition.get("steps", [])] if snapshot else []
    if step not in known:
        raise NotThere(f"workflow {workflow.name} has no such step", received=step, allowed=known)


def list_jobs(store: Store, job_id: str | None = None) -> list[BulkJobRow]:
    """The newest first, or the one."""
    if job_id is None:
        return store.bulk_jobs.list()
    found = store.bulk_jobs.get(job_id) if is_id(job_id) else None
    if found is None:
        raise NotThere("there is no such job", received=job_id, hint="penstock work-orders jobs shows them")
    return [found]


def stop_job(store: Store, job_id: str) -> None:
    """End a job between two chunks; one that has ended stays as it is."""
    (job,) = list_jobs(store, job_id)
    store.bulk_jobs.stop(job.id)


def new_worker() -> str:
    """A name that no worker had before."""
    return f"{socket.gethostname()}-{os.getpid()}-{new_id()}"


def work_on_next(store: Store, worker: str, goes_on: Callable[[], bool]) -> BulkJobRow | None:
    """Claim the oldest job that nobody works on and do it while it `goes_on`, asked before each chunk; None where there
    is none."""
    job = store.bulk_jobs.claim(worker, stale_after=STALE_SECONDS)
    if job is None:
        return None
    try:
        _work(store, job, worker, goes_on)
    except KeyboardInterrupt:
        store.bulk_jobs.release(job.id, worker)
        raise
    return job


def _work(store: Store, job: BulkJobRow, worker: str, goes_on: Callable[[], bool]) -> None:
    which, step = filter_from_json(job.request["filter"]), job.request.get("step")
    bulk, holder = Bulk(store.database, derived), Holder(job.id, worker)
    position = job.position
    while goes_on():
        after = WorkOrderCursor(0, position) if position else None
        ids = [row.id for row in store.history.list(which, limit=CHUNK, after=after, oldest_first=True)]
        if not ids:
            store.bulk_jobs.finish(job.id, worker)
            return
        cancels = job.kind == "cancel"
        mine = bulk.cancel(holder, ids) if cancels else bulk.retry(holder, ids, step=step, by=job.asked_by)
        if not mine:
            return
        position = ids[-1]
    store.bulk_jobs.release(job.id, worker)


def follow(
    store: Store, job_id: str, progress: Callable[[int], None] | None, wait: Callable[[float], object]
) -> BulkJobRow:
    """Work on jobs, or watch others do it, until this one is done."""
    worker = new_worker()

    def told() -> BulkJobRow:
        found = store.bulk_jobs.get(job_id)
        if found is None:
            raise NotThere("there is no such job", received=job_id)
        if progress:
            progress(found.done + found.skipped)
        return found

    while (job := told()).state in OPEN:
        if work_on_next(store, worker, lambda: bool(told())) is None:
            wait(0.2)
    return job


def _count(store: Store, which: WorkOrderFilter) -> int:
    """Exactly: what must be searched for is gone through."""
    if not which.term:
        return store.history.count(which).number
    number, cursor = 0, None
    while page := store.history.list(which, limit=_COUNTED, after=cursor, oldest_first=True):
        number, cursor = number + len(page), page[-1].cursor()
    return number


def _only_allowed(kind: Kind, which: WorkOrderFilter) -> WorkOrderFilter:
    states = tuple(state for state in _ALLOWED[kind] if not which.states or state in which.states)
    # None of its states is allowed: nothing may be done, and an empty filter would mean everything.
    return replace(which, states=states) if states else replace(which, ids=("none",))


def _check_limits(store: Store, which: WorkOrderFilter) -> None:
    for project in store.projects.list():
        limited = project.soft_limit is not None or project.hard_limit is not None
        mine = which.project_id in (None, project.id)
        if limited and mine and store.history.list(replace(which, project_id=project.id), limit=1):
            check_room(store.database, project)
