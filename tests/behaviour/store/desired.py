"""How what is wanted of a pipeline is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from penstock.store import Store, StoreRowUnreadable
from tests.support.waiting import until

FIRST = {"topic": "orders", "topic_id": "t1", "partition": 0, "offset": 4}
SECOND = FIRST | {"partition": 1, "offset": 9}


class DesiredBehaviour:
    def test_what_is_wanted_of_a_pipeline_is_kept_and_noted(self, store: Store) -> None:
        assert store.desired.get("orders") is None
        paused = store.desired.set("orders", "paused", by="ann", reason="too loud")
        assert (paused.state, paused.set_by, paused.reason, paused.held) == ("paused", "ann", "too loud", False)
        store.desired.set("other", "running")
        stopped = store.desired.set("orders", "stopped", by="bob")
        assert (stopped.state, stopped.set_by, stopped.reason) == ("stopped", "bob", None)
        assert (stopped.revision, stopped.restarts) == (2, 0)
        restarted = store.desired.set("orders", "running", by="bob", restart=True)
        assert (restarted.revision, restarted.restarts) == (3, 1)
        assert {name: row.state for name, row in store.desired.all().items()} == {
            "orders": "running",
            "other": "running",
        }
        history = [(row.kind, row.text) for row in store.pipelines.history("orders")]
        assert history == [("restarted", "by bob"), ("stopped", "by bob"), ("paused", "by ann: too loud")]

    def test_events_at_which_instances_failed_add_up_and_are_forgotten_with_the_next_wish(self, store: Store) -> None:
        store.desired.fail("orders", by="one", reason="bad", events=[FIRST])
        store.desired.fail("orders", by="one", reason="bad", events=[FIRST])
        failed = store.desired.fail("orders", by="two", reason="worse", events=[SECOND])
        assert (failed.state, failed.set_by, failed.reason) == ("failed", "two", "worse")
        assert failed.events == [FIRST, SECOND]
        assert store.desired.set("orders", "running").events == []
        assert store.desired.fail("orders", by="two", reason="bad", events=[SECOND]).events == [SECOND]

    def test_a_rate_limit_outlives_other_wishes(self, store: Store) -> None:
        assert store.desired.limit("orders", 100.0, by="ann").rate_limit == 100.0
        assert store.desired.set("orders", "paused").rate_limit == 100.0
        assert store.desired.limit("orders", 0.0).state == "paused"
        assert store.desired.limit("orders", None).rate_limit is None

    def test_a_pause_may_end_by_itself(self, store: Store) -> None:
        assert not store.desired.set("orders", "paused", by="breaker", resume_after=60).resume_is_due
        assert store.desired.set("orders", "paused", by="breaker", resume_after=0).resume_is_due
        assert store.desired.set("orders", "running").resume_at is None

    def test_one_at_a_time_holds_a_pipeline_and_a_lease_ends(self, store: Store) -> None:
        mine = store.desired.hold("orders", by="one", seconds=60)
        assert (mine.held, mine.held_by, mine.state) == (True, "one", "running")
        assert store.desired.hold("orders", by="two", seconds=60).held_by == "one"
        assert store.desired.hold("orders", by="one", seconds=0.2).held_by == "one"
        until(lambda: not store.desired.all()["orders"].held, 60, "the lease has ended")
        assert store.desired.hold("orders", by="two", seconds=60).held_by == "two"
        assert store.desired.release("orders", by="one").held_by == "two"
        assert not store.desired.release("orders", by="two").held

    def test_changes_at_the_same_moment_all_count(self, store: Store) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: store.desired.set("orders", "paused", by=str(n)), range(12)))
        row = store.desired.get("orders")
        assert row is not None
        assert row.revision == 12

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("state", "draining"),
            ("data", "p2"),
            ("data", "[]"),
            ("data", '{"events": 7}'),
            ("data", '{"events": [{"topic": "orders", "range": [4, 9]}]}'),
        ],
    )
    def test_a_row_of_a_newer_version_means_paused_and_names_what_it_holds(
        self, store: Store, column: str, value: str
    ) -> None:
        store.desired.set("orders", "paused", resume_after=0)
        store.desired.hold("orders", by="ann", seconds=60)
        store.desired.set("other", "stopped")
        with store.database.write() as connection:
            changed = sa.text(f"UPDATE penstock_desired_states SET {column} = :value WHERE pipeline = 'orders'")  # noqa: S608
            connection.execute(changed, {"value": value})
        with pytest.raises(
            StoreRowUnreadable, match=f"penstock_desired_states, row orders: column {column}"
        ) as refused:
            store.desired.get("orders")
        assert (refused.value.received, "draining" in str(refused.value)) == (value, column == "state")
        rows = store.desired.all()
        assert rows["other"].state == "stopped", "other pipelines obey as before"
        bad = rows["orders"]
        assert (bad.state, bad.resume_is_due, bad.held) == ("paused", False, True)
        assert bad.reason == str(refused.value)
        # A person who knows better may overwrite it.
        assert store.desired.set("orders", "running").state == "running"
        row = store.desired.get("orders")
        assert row is not None
        assert row.unreadable is None
