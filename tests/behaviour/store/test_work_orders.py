"""Work orders made by hand, run again and taken back, on every database."""

from __future__ import annotations

import pytest

from penstock.core.ids import new_id
from penstock.store import Store
from penstock.store.work.history_model import WorkOrderDetail
from penstock.store.work.model import NotThere
from penstock.workflows.states import derived
from tests.behaviour.store.work_rows import DAY, Rows, now


@pytest.fixture
def rows(work_store: Store) -> Rows:
    return Rows(work_store)


def shown(store: Store, order: str) -> WorkOrderDetail:
    found = store.history.show(order)
    assert found is not None
    return found


def whys(store: Store, *orders: str, step: str | None = None) -> list[str | None]:
    answers = store.orders.retry(orders, step=step)
    assert [answer.work_order_id for answer in answers] == list(orders)
    assert all((answer.run_id is None) == (answer.why is not None) for answer in answers)
    return [answer.why for answer in answers]


def test_a_work_order_made_by_hand_waits_for_its_run(work_store: Store, rows: Rows) -> None:
    flow = rows.flows[0]
    made = work_store.orders.create(flow.id, body='{"a": 1}', name="try", by="a@x")
    detail = shown(work_store, made.work_order_id)
    assert (detail.row.state, detail.row.trigger_id) == ("pending", None)
    clip = detail.dataclips[made.dataclip_id]
    assert (clip.type, clip.name, clip.body) == ("saved_input", "try", '{"a": 1}')
    [run] = detail.row.runs
    assert (run.id, run.queue, run.priority, run.created_by, run.state) == (
        made.run_id,
        "manual",
        0,
        "a@x",
        "available",
    )
    again = work_store.orders.create(flow.id, dataclip_id=made.dataclip_id, step="first")
    assert again.dataclip_id == made.dataclip_id
    for bad in (new_id(), "x"):
        with pytest.raises(NotThere):
            work_store.orders.create(flow.id, dataclip_id=bad)
        with pytest.raises(NotThere):
            work_store.orders.create(bad, body="{}")
    with pytest.raises(NotThere):
        work_store.orders.create(rows.flows[2].id, dataclip_id=made.dataclip_id)


def test_a_work_order_is_run_again_from_the_start_with_the_newest_version(work_store: Store, rows: Rows) -> None:
    failed, rejected = rows.order(state="failed"), rows.order(state="rejected")
    flow = work_store.workflows.apply(rows.flows[0], {"steps": [{"name": "first"}]}, "v2", delete_others=False)
    before = shown(work_store, failed)
    assert whys(work_store, failed, rejected) == [None, None]
    after = shown(work_store, failed)
    assert (after.row.state, len(after.row.runs)) == ("pending", 2)
    assert after.row.last_activity > before.row.last_activity
    new = after.row.runs[-1]
    assert (new.snapshot_id, new.dataclip_id, new.starting_step) == (flow.snapshot_id, before.row.dataclip_id, None)
    assert new.starting_trigger_id == before.row.trigger_id
    assert len(shown(work_store, rejected).row.runs) == 1
    assert whys(work_store, failed, rejected) == ["unfinished", "unfinished"]


def test_a_work_order_is_run_again_from_a_step_with_what_it_was_given(work_store: Store, rows: Rows) -> None:
    order = rows.order(state="failed")
    work_store.workflows.apply(rows.flows[0], {"steps": [{"name": "first"}]}, "v2", delete_others=False)
    [step] = shown(work_store, order).runs[0].steps
    assert whys(work_store, order, step="second") == ["no_step"]
    assert whys(work_store, order, step="first") == [None]
    new = shown(work_store, order).row.runs[-1]
    assert (new.starting_step, new.dataclip_id, new.starting_trigger_id) == ("first", step.input_dataclip_id, None)
    work_store.orders.cancel(derived, [order])
    again = work_store.orders.retry_run(new.id, by="a@x")
    repeated = shown(work_store, order).row.runs[-1]
    assert (repeated.id, repeated.starting_step, repeated.dataclip_id) == (again.run_id, "first", new.dataclip_id)
    work_store.orders.cancel(derived, [order])
    # That run never came to the step.
    assert work_store.orders.retry_run(new.id, step="first").why == "no_step"
    with pytest.raises(NotThere):
        work_store.orders.retry_run("x")


def test_what_cannot_be_run_again_is_said_to_be_so(work_store: Store, rows: Rows) -> None:
    wiped = rows.order(at=now() - 9 * DAY)
    work_store.projects.save(rows.project, "clinic", dataclip_retention=8)
    work_store.retention.sweep()
    gone, running = rows.order(1), rows.order(state="running")
    work_store.workflows.delete(rows.flows[1].id)
    assert whys(work_store, wiped, gone, running, new_id(), "x") == [
        *("wiped", "deleted", "unfinished", "missing", "missing")
    ]


def test_only_what_has_not_begun_is_taken_back_unless_more_is_asked_for(work_store: Store, rows: Rows) -> None:
    pending, running, done = (rows.order(state=state) for state in ("pending", "running", "success"))
    orders = [pending, running, done]
    assert work_store.orders.cancel(derived, orders) == [shown(work_store, pending).row.runs[0].id]
    assert [shown(work_store, order).row.state for order in orders] == ["cancelled", "running", "success"]
    run = shown(work_store, running).row.runs[0].id
    assert work_store.orders.cancel_runs(derived, [run]) == []
    assert work_store.orders.cancel_runs(derived, [run], in_flight=True) == [run]
    ended = shown(work_store, running)
    assert (ended.row.state, ended.row.runs[0].state) == ("cancelled", "cancelled")
    assert ended.row.runs[0].finished_at is not None
    assert work_store.orders.cancel(derived, ["x", new_id()], in_flight=True) == []
