"""Jobs over many work orders: in chunks, resumable, nothing done twice, one worker at a time; and the housekeeping."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from penstock.service import bulk_jobs
from penstock.service.bulk_jobs import begin, matching, work_on_next
from penstock.service.retention import Upkeep
from penstock.service.work_order_filters import filter_as_json, filter_from_json
from penstock.store import Store
from penstock.store.work.bulk import Bulk, Holder
from penstock.store.work.bundles import Bundles
from penstock.store.work.history_model import WorkOrderFilter
from penstock.store.workflow_tables import bulk_jobs as jobs_table
from penstock.store.workflow_tables import runs, work_orders
from penstock.workflows.states import derived
from tests.support.waiting import until
from tests.support.work import Work

FAILED = WorkOrderFilter(states=("failed",))


@pytest.fixture
def failed(work_store: Store) -> list[str]:
    """Ids of 250 work orders that failed, the oldest first."""
    work = Work(work_store.database)
    work.orders(work.workflow(work.project()), [{"n": number} for number in range(250)])
    with work_store.database.write() as connection:
        connection.execute(sa.update(runs).values(state="failed", started_at=1, finished_at=2))
        connection.execute(sa.update(work_orders).values(state="failed"))
        return sorted(connection.scalars(sa.select(work_orders.c.id)))


def _asked(store: Store) -> str:
    return begin(store, "retry", FAILED, total=matching(store, "retry", FAILED), by="user1").id


def test_a_job_goes_on_where_it_was_left_and_retries_each_once(work_store: Store, failed: list[str]) -> None:
    job = _asked(work_store)
    turns = iter([True, False])
    assert work_on_next(work_store, "first", lambda: next(turns))
    left = work_store.bulk_jobs.get(job)
    assert left is not None
    assert (left.state, left.done, left.position) == ("waiting", 100, failed[99])
    assert work_on_next(work_store, "second", lambda: True)
    done = work_store.bulk_jobs.get(job)
    assert done is not None
    assert (done.state, done.done, done.skipped, done.total) == ("done", 250, 0, 250)
    rows = [row for start in (0, 200) for row in work_store.history.list(limit=200, skip=start)]
    assert {len(row.runs) for row in rows} == {2}
    assert {row.state for row in rows} == {"pending"}
    assert {row.runs[-1].created_by for row in rows} == {"user1"}
    assert work_on_next(work_store, "third", lambda: True) is None


def test_an_interrupted_command_leaves_its_job_to_others_at_once(work_store: Store, failed: list[str]) -> None:
    job = _asked(work_store)

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work_on_next(work_store, "command", interrupted)
    left = work_store.bulk_jobs.get(job)
    assert left is not None
    assert (left.state, left.claimed_by, left.done) == ("waiting", None, 0)


def test_whoever_was_taken_for_dead_does_nothing_more(work_store: Store, failed: list[str]) -> None:
    job = _asked(work_store)
    assert work_store.bulk_jobs.claim("slow", stale_after=60)
    assert work_store.bulk_jobs.claim("other", stale_after=60) is None
    with work_store.database.write() as connection:
        connection.execute(sa.update(jobs_table).values(heartbeat_at=1))
    assert work_store.bulk_jobs.claim("other", stale_after=60)
    bulk = Bulk(work_store.database, derived)
    assert not bulk.retry(Holder(job, "slow"), failed[:100], step=None, by=None)
    assert bulk.retry(Holder(job, "other"), failed[:100], step=None, by=None)
    assert work_store.history.count(WorkOrderFilter(states=("pending",))).number == 100


def test_a_stopped_job_ends_at_its_chunk(work_store: Store, failed: list[str]) -> None:
    job = _asked(work_store)
    turns = iter([None, work_store.bulk_jobs.stop])

    def goes_on() -> bool:
        stop = next(turns)
        return stop is None or stop(job)

    assert work_on_next(work_store, "one", goes_on)
    found = work_store.bulk_jobs.get(job)
    assert found is not None
    assert (found.state, found.done) == ("stopped", 100)
    assert work_store.history.count(FAILED).number == 150


def test_a_cancellation_takes_what_has_not_begun(work_store: Store, failed: list[str]) -> None:
    work_store.orders.retry(failed[:3])
    pending = WorkOrderFilter(states=("pending",))
    job = begin(work_store, "cancel", pending, total=matching(work_store, "cancel", pending), by="user1")
    with work_store.database.write() as connection:
        # Claimed after it was asked for; its work order does not know yet.
        begun = (runs.c.work_order_id == failed[0]) & (runs.c.state == "available")
        connection.execute(sa.update(runs).where(begun).values(state="claimed", worker_name="w"))
    assert work_on_next(work_store, "one", lambda: True)
    found = work_store.bulk_jobs.get(job.id)
    assert found is not None
    assert (found.state, found.done, found.skipped) == ("done", 2, 1)


def test_a_filter_comes_back_from_the_job_as_it_was() -> None:
    which = WorkOrderFilter(states=("failed", "lost"), active_after=5, ids=("a",), term="x", fields=frozenset({"log"}))
    assert filter_from_json(json.loads(json.dumps(filter_as_json(which)))) == which


def test_an_instance_does_jobs_and_makes_words_searchable(
    work_store: Store, failed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_jobs, "CHUNK", 20)
    job = _asked(work_store)
    upkeep = Upkeep(work_store)
    upkeep.start()
    try:
        until(lambda: getattr(work_store.bulk_jobs.get(job), "state", "") == "done", 30, "the job is done")
        until(lambda: work_store.history.list(WorkOrderFilter(term="249")), 30, "the last body is found")
    finally:
        upkeep.close()
    found = work_store.bulk_jobs.get(job)
    assert found is not None
    assert found.done == 250


def test_a_bundle_has_what_belongs_to_many(work_store: Store, failed: list[str]) -> None:
    rows = work_store.history.list(WorkOrderFilter(ids=tuple(failed[:5])))
    bundles = Bundles(work_store.database)
    clips = list(bundles.dataclips([row.dataclip_id for row in rows if row.dataclip_id]))
    assert sorted(json.loads(clip.body or "")["n"] for clip in clips) == [0, 1, 2, 3, 4]
    run_ids = [run.id for row in rows for run in row.runs]
    assert list(bundles.steps(run_ids)) == list(bundles.logs(run_ids)) == []
