"""What is wiped and deleted, and what stays, on every database."""

from __future__ import annotations

import pytest

from penstock.store import Store
from penstock.store.work import retention
from penstock.store.work.history_model import DataclipRow, WorkOrderDetail, WorkOrderFilter
from penstock.store.workflow_tables import dataclips, log_lines, runs, steps, work_orders, work_search
from tests.behaviour.store.work_rows import DAY, SECOND, Rows, now

ALL = (dataclips, log_lines, runs, steps, work_orders, work_search)


@pytest.fixture
def rows(work_store: Store) -> Rows:
    return Rows(work_store)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that a few rows fill."""
    monkeypatch.setattr(retention, "_BATCH", 3)
    monkeypatch.setattr(retention, "_WALK", 4)
    monkeypatch.setattr(retention, "_LINES", 5)


def sweep(store: Store) -> tuple[int, int]:
    deleted = wiped = 0
    while True:
        piece = store.retention.sweep()
        deleted, wiped = deleted + piece.deleted, wiped + piece.wiped
        if not piece.has_more:
            return deleted, wiped


def shown(store: Store, order: str) -> WorkOrderDetail:
    found = store.history.show(order)
    assert found is not None
    return found


def bodies(store: Store, order: str) -> set[str | None]:
    return {clip.body for clip in shown(store, order).dataclips.values()}


def found(store: Store, term: str) -> list[str]:
    return [row.id for row in store.history.list(WorkOrderFilter(term=term), limit=100)]


def test_without_periods_nothing_goes(work_store: Store, rows: Rows) -> None:
    rows.order(at=now() - 900 * DAY)
    assert sweep(work_store) == (0, 0)
    assert rows.count(dataclips) == 2


def test_old_work_orders_go_with_all_that_is_theirs(work_store: Store, rows: Rows) -> None:
    work_store.projects.save(rows.project, "clinic", history_retention=30)
    old = now() - 31 * DAY
    for _ in range(7):
        rows.order(at=old, logs=["one line", "two lines", "three"])
    kept = [
        rows.order(at=old, state="running"),
        rows.order(at=old, active=now() - 29 * DAY),
        rows.order(1),
        rows.order(2, at=old),
    ]
    saved = rows.order(at=old, name="kept by someone", manual=True)
    rows.index()
    named = shown(work_store, saved).row.dataclip_id or ""
    assert sweep(work_store) == (8, 0)
    assert sorted(row.id for row in work_store.history.list(limit=100)) == sorted(kept)
    assert {table.name: rows.count(table) for table in (runs, steps, log_lines)} == {
        "penstock_runs": 4,
        "penstock_steps": 4,
        "penstock_log_lines": 0,
    }
    assert rows.count(dataclips) == 2 * 4 + 1
    assert work_store.history.dataclip(named) is not None
    assert sorted(found(work_store, "anna")) == sorted(kept)
    assert found(work_store, "three") == []
    assert sweep(work_store) == (0, 0)


def test_wiping_keeps_metadata_and_coordinates(work_store: Store, rows: Rows) -> None:
    work_store.projects.save(rows.project, "clinic", dataclip_retention=7)
    old = [rows.order(at=now() - 8 * DAY + number) for number in range(5)]
    others = [rows.order(2, at=now() - 8 * DAY) for _ in range(6)]
    young = rows.order(at=now() - 6 * DAY)
    named = rows.order(at=now() - 8 * DAY, name="for teaching")
    rows.index()
    assert sweep(work_store) == (0, 11)
    for order in old:
        detail = shown(work_store, order)
        clip: DataclipRow = detail.dataclips[detail.row.dataclip_id or ""]
        assert (clip.body, clip.raw, clip.request, clip.topic) == (None, None, "{}", "t")
        assert clip.offset is not None
        assert clip.wiped_at is not None
    assert sorted(found(work_store, "anna")) == sorted([*others, young, named])
    assert all(None not in bodies(work_store, order) for order in (*others, young))
    rows.index()
    assert sweep(work_store) == (0, 0)
    # A shorter period goes on where the longer one had come to.
    work_store.projects.save(rows.project, "clinic", dataclip_retention=5)
    assert sweep(work_store) == (0, 2)
    assert bodies(work_store, young) == {None}


@pytest.mark.parametrize(
    ("policy", "erased"), [("erase_all", {"success", "failed"}), ("retain_with_errors", {"success"})]
)
def test_policies_wipe_what_has_ended(work_store: Store, rows: Rows, policy: str, erased: set[str]) -> None:
    work_store.projects.save(rows.project, "clinic", retention_policy=policy)
    at = now() - 100 * SECOND
    orders = {state: rows.order(state=state, at=at) for state in ("success", "failed", "running", "rejected")}
    # Many end in the same moment: none is passed over where a batch ends.
    more = [rows.order(at=at, active=at + SECOND) for _ in range(8)]
    just = rows.order(active=now())
    sweep(work_store)
    for state, order in orders.items():
        assert (bodies(work_store, order) == {None}) == (state in erased)
    assert all(bodies(work_store, order) == {None} for order in more)
    assert None not in bodies(work_store, just)
    rows.index()
    assert set(found(work_store, "anna")) <= {just, *(orders.values())}
    assert bool(found(work_store, "anna")) == (policy == "retain_with_errors")
