"""Runs and log lines as lists of their own, and versions that a change expects, on every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.ids import new_id
from penstock.store import Changed, Store
from penstock.store.work.run_lists import RunFilter, RunLists
from tests.behaviour.store.work_rows import SECOND, Rows, now


def test_runs_are_found_by_owner_state_and_time_page_by_page(work_store: Store) -> None:
    rows, lists, begin = Rows(work_store), RunLists(work_store.database), now() - 1_000 * SECOND
    orders = [
        rows.order(flow, state=state, at=begin + n * SECOND, logs=[f"line {n}"])
        for n, (flow, state) in enumerate([(0, "success"), (0, "failed"), (1, "failed"), (2, "failed"), (0, "lost")])
    ]
    everything = lists.list(RunFilter(), limit=10)
    assert [run.work_order_id for run in everything] == orders[::-1]
    assert [run.id for run in lists.list(RunFilter(), limit=2, after=everything[1].id)] == [
        run.id for run in everything[2:4]
    ]
    assert [run.id for run in lists.list(RunFilter(), limit=2, skip=3)] == [run.id for run in everything[3:]]

    def number(**which: object) -> int:
        found = lists.count(RunFilter(**which), cap=10)  # type: ignore[arg-type]  # names are RunFilter's
        assert len(lists.list(RunFilter(**which), limit=10)) == found.number  # type: ignore[arg-type]  # as above
        assert lists.count_logs(RunFilter(**which), cap=10).number == found.number  # type: ignore[arg-type]  # as above
        return found.number

    assert number(project_id=rows.project) == 4
    assert number(workflow_id=rows.flows[0].id.upper(), states=("failed", "lost")) == 2
    assert number(work_order_id=orders[0]) == 1
    assert number(inserted_after=begin + SECOND, inserted_before=begin + 3 * SECOND) == 2
    assert number(updated_after=begin + SECOND, updated_before=begin + 3 * SECOND) == 2
    assert number(ids=(everything[0].id, "nonsense")) == 1
    assert number(project_id="nonsense") == number(project_id=new_id()) == 0
    assert lists.count(RunFilter(), cap=3) == (3, True)
    lines = lists.logs(RunFilter(project_id=rows.project), limit=2)
    assert [line.message for line in lines] == ["line 4", "line 2"]
    assert lists.logs(RunFilter(), ids=[lines[1].id], limit=5) == (lines[1],)


def test_a_change_that_expects_another_version_is_refused(work_store: Store) -> None:
    rows = Rows(work_store)
    [row] = work_store.triggers.list(workflow_id=rows.flows[0].id)
    saved = work_store.triggers.save(replace(row, comment="new"), expected=row.updated_at)
    assert saved.updated_at > row.updated_at
    with pytest.raises(Changed):
        work_store.triggers.save(replace(row, comment="newer"), expected=row.updated_at)
    assert work_store.triggers.get(row.id) == saved
    flow = rows.flows[0]
    changed = work_store.workflows.apply(flow, {}, "v2", delete_others=False, expected=flow.updated_at)
    with pytest.raises(Changed):
        work_store.workflows.apply(flow, {}, "v3", delete_others=False, expected=flow.updated_at)
    assert work_store.workflows.by_id(flow.id) == changed
    assert len(work_store.triggers.list(workflow_id=flow.id)) == 1
