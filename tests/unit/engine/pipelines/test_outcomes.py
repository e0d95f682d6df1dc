"""The way of an outcome to its commit: account, settle, advance, commit; and what a dead worker leaves behind."""

from __future__ import annotations

import pytest

from penstock.core.metrics import Metrics
from penstock.engine.pipelines import stats
from penstock.kafka.group_consumer import CommitRefused
from penstock.pipeline.in_flight_log import InFlight
from penstock.pipeline.messages import Counts, UnitOutcome, UnitRequest
from tests.support.driver import Driver, done, failed, spec

A, B = ("t", 0), ("t", 1)


@pytest.fixture
def driver() -> Driver:
    made = Driver(spec(source={"start": "earliest"}), t=[100, 100])
    made.join(A, B)
    return made


def planned(driver: Driver) -> UnitRequest:
    request = driver.plan()
    assert request is not None
    return request


def test_an_outcome_is_committed_and_its_partitions_may_be_planned_again(driver: Driver) -> None:
    driver.deliver(done(planned(driver), {A: 10, B: 20}))
    assert (driver.group.offset(A), driver.group.offset(B)) == (10, 20)
    again = planned(driver)
    assert [a.next_offset for a in again.assignments] == [10, 20]


def test_i01_failures_are_durable_before_their_offsets_are_committed(driver: Driver) -> None:
    driver.store.unavailable = True
    request = planned(driver)
    driver.deliver(done(request, {A: 10}, failures=[failed(A, 3)]))
    assert driver.group.offset(A) == 0
    assert driver.plan() is None, "its partitions wait for the store"
    driver.pass_time(60)
    driver.tick()
    assert driver.group.offset(A) == 0
    driver.store.unavailable = False
    driver.pass_time(60)
    driver.tick()
    assert driver.store.offsets_of_letters == [3]
    assert driver.group.offset(A) == 10


def test_l2_an_outcome_that_does_not_add_up_is_rejected_and_its_range_repeated(driver: Driver) -> None:
    request = planned(driver)
    wrong = done(request, {A: 10})
    wrong.partitions[0].account.acted -= 1  # one event is neither acted on, filtered, failed nor pending
    driver.deliver(wrong)
    assert driver.group.offset(A) == 0
    assert driver.runner.state == "waiting"
    assert "t/0" in (driver.runner.reason or "")
    driver.pass_time(60)
    again = planned(driver)
    assert [a.next_offset for a in again.assignments] == [0, 0]
    assert again.revision != request.revision, "the worker builds the pipeline anew"
    driver.deliver(done(again, {A: 10}))
    assert driver.group.offset(A) == 10


def test_l2_an_outcome_without_one_of_its_partitions_is_rejected(driver: Driver) -> None:
    request = planned(driver)
    short = done(request, {A: 10, B: 10})
    short.partitions.pop()
    driver.deliver(short)
    assert (driver.group.offset(A), driver.group.offset(B)) == (0, 0)


def test_l3_a_metric_that_raises_holds_nothing_back(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of filtered events was negative once: the metric raised, the outcome was dropped, and the pipeline
    restarted for ever."""
    outcome = done(planned(driver), {A: 10})
    outcome.counts = Counts(read=10, filtered=-3, unrouted=5, acted=10)
    driver.deliver(outcome)
    assert driver.group.offset(A) == 10

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such label")

    monkeypatch.setattr(Metrics, "add_events", broken)
    monkeypatch.setattr(stats.PipelineStats, "add", broken)
    driver.deliver(done(planned(driver), {A: 20}))
    assert driver.group.offset(A) == 20


def test_l3_metrics_of_rebalances_deaths_and_outages_hold_nothing_back(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def labels(self, *_: object) -> None:
            raise ValueError("no such label")

    for name in ("rebalances", "worker_deaths", "store_errors", "breaker_trips"):
        monkeypatch.setattr(driver.runner.context.metrics, name, Broken())
    request = planned(driver)
    driver.runner.lose({request.unit}, {}, stage=None, reason="cancelled")
    driver.tick()
    driver.store.unavailable = True
    driver.deliver(done(planned(driver), {A: 10}, failures=[failed(A, 3)]))
    driver.store.unavailable = False
    driver.pass_time(60)
    assert driver.group.offset(A) == 10
    driver.group.member.listener.revoked([A])
    driver.group.member.listener.lost([B])
    assert not len(driver.runner.partitions)


def test_l4_an_outcome_of_a_former_epoch_changes_nothing(driver: Driver) -> None:
    late = planned(driver)
    driver.group.member.listener.lost([A, B])
    assert driver.dispatcher.stopped == [{late.unit}], "units on lost partitions begin no further act"
    driver.group.member.listener.assigned([A, B])
    driver.tick()
    driver.deliver(done(late, {A: 10, B: 10}, failures=[failed(A, 3)]))
    assert (driver.group.offset(A), driver.group.offset(B)) == (0, 0)
    assert driver.store.offsets_of_letters == [], "the new owner settles what it sees"
    assert [a.next_offset for a in planned(driver).assignments] == [0, 0]


def test_l4_an_outcome_that_is_returned_twice_counts_once(driver: Driver) -> None:
    request = planned(driver)
    driver.deliver(done(request, {A: 10}))
    driver.deliver(done(request, {A: 10}))
    assert driver.runner.stats.counts.read == 10
    assert driver.group.offset(A) == 10


def test_f27_failures_of_a_lost_partition_are_not_settled_by_its_former_owner(driver: Driver) -> None:
    driver.store.unavailable = True
    driver.deliver(done(planned(driver), {A: 10}, failures=[failed(A, 3)]))
    driver.group.member.listener.lost([A])
    driver.store.unavailable = False
    driver.pass_time(60)
    driver.tick()
    assert driver.store.offsets_of_letters == []
    assert driver.group.offset(A) == 0


def test_a_refused_commit_is_repeated_before_anything_is_planned(driver: Driver) -> None:
    driver.group.refuse = CommitRefused("the coordinator is loading", lost=False)
    driver.deliver(done(planned(driver), {A: 10}))
    assert driver.plan() is None
    assert driver.runner.state == "waiting"
    driver.group.refuse = None
    driver.pass_time(60)
    driver.tick()
    assert driver.group.offset(A) == 10
    assert driver.plan() is not None


def test_i02_a_cursor_that_was_set_back_does_not_move_the_commit_back(driver: Driver) -> None:
    driver.deliver(done(planned(driver), {A: 50}))
    state = driver.runner.partitions.get(A)
    assert state is not None
    state.next_offset = 20
    driver.runner.outcomes.commit()
    assert driver.group.offset(A) == 50
    assert not state.is_dirty, "it is read on, and committed once it is beyond"


# -- deaths ----------------------------------------------------------------------------------


def test_l1_a_death_moves_nothing_and_everything_not_returned_is_repeated(driver: Driver) -> None:
    request = planned(driver)
    driver.runner.lose({request.unit}, {request.unit: [InFlight(0, 7, 8)]}, stage="crash", reason="killed")
    driver.tick()
    assert (driver.group.offset(A), driver.group.offset(B)) == (0, 0)
    again = planned(driver)
    assert [(a.key, a.next_offset) for a in again.assignments] == [(B, 0)], "the other one runs alone"
    alone = driver.runner.plan_isolated("isolation-0", driver.dispatcher.new_unit)
    assert alone is not None
    assert [(a.key, a.next_offset) for a in alone.assignments] == [(A, 0)]
    assert alone.careful


def test_i09_the_event_that_kills_again_alone_is_one_dead_letter_and_its_neighbours_are_acted_on(
    driver: Driver,
) -> None:
    first = planned(driver)
    driver.runner.lose({first.unit}, {first.unit: [InFlight(0, 7, 8)]}, stage="crash", reason="killed")
    driver.tick()
    alone = driver.runner.plan_isolated("isolation-0", driver.dispatcher.new_unit)
    assert alone is not None
    driver.runner.lose({alone.unit}, {alone.unit: [InFlight(0, 7, 8)]}, stage="crash", reason="killed")
    driver.tick()
    assert driver.store.offsets_of_letters == [7]
    assert driver.crashed.passed == [7]
    state = driver.runner.partitions.get(A)
    assert state is not None
    assert (state.next_offset, state.pending) == (8, tuple(range(7))), "what was not returned is repeated"


def test_i06_a_poison_event_waits_for_the_store(driver: Driver) -> None:
    first = planned(driver)
    driver.runner.lose({first.unit}, {first.unit: [InFlight(0, 0, 1)]}, stage="crash", reason="killed")
    driver.tick()
    alone = driver.runner.plan_isolated("isolation-0", driver.dispatcher.new_unit)
    assert alone is not None
    driver.crashed.unavailable = True
    driver.runner.lose({alone.unit}, {alone.unit: [InFlight(0, 0, 1)]}, stage="crash", reason="killed")
    driver.tick()
    assert driver.store.offsets_of_letters == []
    driver.crashed.unavailable = False
    driver.pass_time(60)
    driver.tick()
    assert driver.store.offsets_of_letters == [0]
    assert driver.group.offset(A) == 1


def test_l6_a_death_that_is_no_event_s_fault_isolates_nothing(driver: Driver) -> None:
    request = planned(driver)
    driver.runner.lose({request.unit}, {request.unit: [InFlight(0, 7, 8)]}, stage=None, reason="cancelled")
    driver.tick()
    assert not driver.runner.has_isolated
    assert len(planned(driver).assignments) == 2


def test_a_unit_that_returned_before_its_worker_died_is_not_lost(driver: Driver) -> None:
    driver.store.unavailable = True
    request = planned(driver)
    driver.deliver(done(request, {A: 10}, failures=[failed(A, 3)]))
    driver.runner.lose({request.unit}, {}, stage="crash", reason="killed")
    driver.store.unavailable = False
    driver.pass_time(60)
    driver.tick()
    assert driver.group.offset(A) == 10
    assert driver.store.offsets_of_letters == [3]


def test_f37_progress_before_an_out_of_range_offset_is_kept(driver: Driver) -> None:
    outcome = done(planned(driver), {A: 30})
    outcome.partitions[0].out_of_range = True
    driver.cluster.starts[A] = 40
    driver.deliver(outcome)
    driver.tick()
    assert driver.group.offset(A) == 40
    assert ("gap", "t/0: offsets 30 to 39 are no longer in the log; resuming at 40") in driver.store.notes


def test_a_hung_step_before_a_cursor_is_dead_lettered_by_the_driver(driver: Driver) -> None:
    outcome = done(planned(driver), {A: 5})
    outcome.partitions[0].hung_at = 5
    driver.deliver(outcome)
    driver.tick()
    assert driver.store.offsets_of_letters == [5]
    assert driver.crashed.passed == [5]
    assert driver.group.offset(A) == 6


def test_one_blocked_event_shows_as_waiting_while_the_rest_goes_on(driver: Driver) -> None:
    outcome = done(planned(driver), {A: 5, B: 9})
    outcome.partitions[0].blocked_for, outcome.partitions[0].blocked_by = 10.0, "schema 7 is unknown"
    driver.deliver(outcome)
    driver.tick()
    assert (driver.runner.state, driver.runner.reason) == ("waiting", "schema 7 is unknown")
    assert (driver.group.offset(A), driver.group.offset(B)) == (5, 9)
    assert [a.key for a in planned(driver).assignments] == [B]


def test_units_that_are_not_ours_are_ignored(driver: Driver) -> None:
    driver.deliver(UnitOutcome(99, "p", 1, "done"))
    driver.runner.lose({99}, {}, stage="crash", reason="killed")
    driver.tick()
    assert driver.runner.outcomes.none_open
