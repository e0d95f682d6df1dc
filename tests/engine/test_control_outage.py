"""Desired state while the store is away: what was wanted last holds, and what a flow wants is written later."""

from __future__ import annotations

import pytest

from penstock.core.metrics import Metrics
from penstock.engine.desired_state import DesiredState, DesiredStateSync
from penstock.store import Store
from tests.support.postgres import PostgresServer

EVENT = {"topic": "orders", "topic_id": "t", "partition": 0, "offset": 3}


class Obedient:
    """Stands where a flow stands: takes what is wanted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wanted = DesiredState()

    def set_desired(self, wanted: DesiredState) -> None:
        self.wanted = wanted


@pytest.mark.postgres
def test_while_the_store_is_away_nothing_changes_and_nothing_is_forgotten() -> None:
    with PostgresServer() as server, Store.open(server.create_database()) as store:
        paused, strict = Obedient("paused"), Obedient("strict")
        control = DesiredStateSync("one", store, Metrics(), lambda: [paused, strict])
        store.desired.set("paused", "paused", by="ann", reason="too loud")
        control.refresh()
        assert paused.wanted.paused
        assert paused.wanted.shown() == ("paused", "too loud (by ann)")

        server.kill()
        control.refresh()
        assert paused.wanted.paused
        control.fail("strict", "boom", [EVENT])
        control.refresh()
        assert strict.wanted.away
        assert strict.wanted.shown() == ("failed", "boom (by one)")

        server.start()
        store.ping()
        assert store.desired.get("strict") is None
        control.refresh()
        failed = store.desired.get("strict")
        assert failed is not None
        assert (failed.state, failed.events) == ("failed", [EVENT])
        assert (strict.wanted.revision, strict.wanted.away) == (failed.revision, True)
        store.desired.set("strict", "running", by="ann")
        control.refresh()
        assert not strict.wanted.away


@pytest.mark.postgres
def test_a_pause_of_the_breaker_is_tried_after_its_time_on_every_instance() -> None:
    with PostgresServer() as server, Store.open(server.create_database()) as store:
        here, there = Obedient("orders"), Obedient("orders")
        one = DesiredStateSync("one", store, Metrics(), lambda: [here])
        two = DesiredStateSync("two", store, Metrics(), lambda: [there])
        one.pause("orders", by="breaker", reason="half of it failed", resume_after=0.0)
        assert here.wanted.paused, "at once, before the store knows"
        one.refresh()
        two.refresh()
        assert (here.wanted.trial, there.wanted.trial, there.wanted.paused) == (True, True, False)
        two.resume("orders", by="breaker", reason="the trial went well")
        two.refresh()
        one.refresh()
        assert (here.wanted.state, here.wanted.trial) == ("running", False)
