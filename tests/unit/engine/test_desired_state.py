"""The last words of an instance: what its pipelines want is written before it ends, by a store that answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from penstock.core.metrics import Metrics
from penstock.engine.desired_state import DesiredStateSync
from penstock.store import Store
from penstock.store.errors import StoreError
from tests.support.waiting import until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


def test_what_a_pipeline_wants_while_the_store_is_asked_is_written_before_the_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = DesiredStateSync("one", store, Metrics(), list)
    asked, answer, read = threading.Event(), threading.Event(), store.desired.all

    def slow() -> Any:
        asked.set()
        answer.wait(60)
        return read()

    monkeypatch.setattr(store.desired, "all", slow)
    control.start()
    assert asked.wait(60)
    control.fail("orders", "poison", [])
    stopping = threading.Thread(target=control.stop)
    stopping.start()
    answer.set()
    stopping.join(60)
    until(lambda: not control.is_alive, 60, "the last write")
    assert read()["orders"].state == "failed"


def test_a_stop_does_not_wait_for_a_store_that_hangs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    control = DesiredStateSync("one", store, Metrics(), list, stop_within=0.05)
    asked, answer = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> Any:
        asked.set()
        answer.wait(60)
        raise AssertionError("nobody waits for this")

    monkeypatch.setattr(store.desired, "fail", hang)
    control.fail("orders", "poison", [])
    control.start()
    assert asked.wait(60)
    control.stop()
    assert control.is_alive
    answer.set()
    until(lambda: not control.is_alive, 60, "the loop to end")


def test_f29_a_change_that_the_store_refuses_does_not_hide_what_is_desired_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = DesiredStateSync("one", store, Metrics(), list)

    def refuse(*_: object, **__: object) -> Any:
        raise StoreError("this row is refused")

    monkeypatch.setattr(store.desired, "fail", refuse)
    sync.fail("orders", "poison", [])
    store.desired.set("payments", "paused", by="anna", reason=None)
    sync.refresh()
    assert sync.desired("payments").paused


def test_a_desired_state_of_a_newer_version_pauses_its_pipeline_and_is_logged_once(store: Store) -> None:
    sync = DesiredStateSync("one", store, Metrics(), list)
    store.desired.set("orders", "running")
    store.desired.set("other", "stopped")
    with store.database.write() as connection:
        connection.execute(sa.text("UPDATE penstock_desired_states SET state = 'draining' WHERE pipeline = 'orders'"))
    with structlog.testing.capture_logs() as logged:
        sync.refresh()
        sync.refresh()
    assert sync.desired("orders").paused
    assert "'draining'" in str(sync.desired("orders").reason)
    assert sync.desired("other").away
    assert [(line["log_level"], line["pipeline"]) for line in logged] == [("error", "orders")]
    assert "penstock_desired_states, row orders: column state holds 'draining'" in logged[0]["reason"]
