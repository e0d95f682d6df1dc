"""Recovery: files of alternate storage become work orders, each once, in order, whatever lies among them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.act.work_order import WorkOrder
from penstock.core.event import Event, Record
from penstock.core.plugin import PipelineContext
from penstock.service.lightning_recovery import Report, recover
from penstock.store import Store
from penstock.tables.action import Chunk
from penstock.tables.cursor import Place
from tests.support.desk import Desk
from tests.support.postgres import PostgresServer, postgres_server

__all__ = ["postgres_server"]


@pytest.fixture(params=["sqlite", "postgresql"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    if request.param == "sqlite":
        made = Desk(f"sqlite:///{tmp_path / 'store.db'}")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made = Desk(server.create_database())
    yield made
    made.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base" / "workflow").mkdir(parents=True)
    return tmp_path / "base"


def lay(base: Path, trigger: str, offset: int, *, data: str = '{"a": 1}', topic: str = "lab_results") -> Path:
    """As Lightning does."""
    metadata = {"topic": topic, "partition": 0, "offset": offset, "key": "", "ts": 5, "headers": []}
    path = base / "workflow" / f"{trigger}_{topic}_0_{offset}.json"
    path.write_text(json.dumps({"data": data, "metadata": metadata}))
    return path


def run(desk: Desk, base: Path, **more: Any) -> Report:
    with Store.open(desk.url) as store:
        return recover(store, desk.url, [base], **more)


def test_files_become_work_orders_in_the_order_of_the_log_and_a_second_pass_changes_nothing(
    desk: Desk, base: Path
) -> None:
    for offset in (10, 9, 100):
        lay(base, desk.trigger, offset)
    bad = lay(base, desk.trigger, 11)
    bad.write_text("{")
    lay(base, desk.trigger, 12, data="[1]")
    lay(base, "0199d3a0-0000-7000-8000-000000000000", 13)
    before = sorted(base.rglob("*"))
    assert run(desk, base, dry_run=True).as_dict()["outcomes"] == {
        "malformed": 1, "invalid_data": 1, "unknown_trigger": 1, "ok": 3,
    }  # fmt: skip
    assert (sorted(base.rglob("*")), desk.count("work_orders")) == (before, 0)

    report = run(desk, base)
    assert {each.path.name.split("_")[-1] for each in report.failed} == {"11.json", "12.json", "13.json"}
    order = 'SELECT d."offset" FROM penstock_runs r JOIN penstock_dataclips d ON d.id = r.dataclip_id ORDER BY r.id'
    assert desk.query(order) == [(9,), (10,), (100,)]
    assert len(list(base.rglob("*.json.recovered"))) == 3
    # A file that was marked by hand only, as a crash between commit and renaming leaves it.
    for path in base.rglob("*.json.recovered"):
        path.rename(path.with_suffix(""))
    assert run(desk, base).as_dict()["outcomes"]["duplicate"] == 3
    assert desk.count("work_orders") == 3


def test_a_mapping_stands_for_ids_that_changed_and_limits_hold_the_rest_back(desk: Desk, base: Path) -> None:
    desk.execute("UPDATE penstock_projects SET hard_limit = 2")
    for offset in range(4):
        lay(base, "0199d3a0-0000-7000-8000-000000000000", offset)
    report = run(desk, base, triggers={"0199d3a0-0000-7000-8000-000000000000": desk.trigger})
    assert report.as_dict()["outcomes"] == {"ok": 2, "work_order_creation_blocked": 2}
    assert (desk.offsets(), len(list(base.rglob("*.json")))) == ([0, 1], 2)


def test_what_was_taken_in_live_is_a_duplicate_and_what_was_recovered_is_not_taken_in_live(
    desk: Desk, base: Path
) -> None:
    place = Place(f"trigger-{desk.trigger}", "topic-id", 0, "lab_results")
    action = WorkOrder.create(desk.action()["config"], PipelineContext(place.pipeline))
    events = [Event(Record("lab_results", 0, n, None, b"{}", None, 5, 1), b"{}", "") for n in range(6)]
    action.open(place, 0)
    action.put(Chunk(place, 0, 3, events[:3]))
    for offset in (2, 4):
        lay(base, desk.trigger, offset)
    assert run(desk, base).as_dict()["outcomes"] == {"duplicate": 1, "ok": 1}
    action.put(Chunk(place, 3, 6, events[3:]))
    assert desk.offsets() == [0, 1, 2, 3, 4, 5]
    action.close()
