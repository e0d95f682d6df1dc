"""Where a pipeline's partitions begin: first starts, rebalances, outages, re-created topics."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.kafka.group_consumer import Commit, CommitRefused
from penstock.pipeline.messages import UnitRequest
from tests.support.driver import Driver, FakeStore, done, failed, spec

A, B = ("t", 0), ("t", 1)


def positions(driver: Driver) -> dict[tuple[str, int], int]:
    return {state.key: state.next_offset for state in driver.runner.partitions}


def started(store: FakeStore | None = None, *partitions: tuple[str, int], **source: Any) -> Driver:
    driver = Driver(spec(source=source), t=[100, 100])
    if store is not None:
        driver.store.starts = store.starts
    driver.join(*partitions)
    return driver


def planned(driver: Driver) -> UnitRequest:
    request = driver.plan()
    assert request is not None
    return request


def test_a_start_position_is_committed_before_the_first_unit() -> None:
    driver = started(start="latest")
    assert positions(driver) == {A: 100, B: 100}
    assert (driver.group.offset(A), driver.group.offset(B)) == (100, 100)


def test_f5_two_instances_that_start_together_agree_where_latest_is() -> None:
    first = started(None, A, start="latest")
    second = Driver(spec(source={"start": "latest"}), t=[100, 120])
    second.store, second.group.commits = first.store, first.group.commits
    second = Driver(spec(source={"start": "latest"}), t=[100, 120])
    second.store.starts = first.store.starts
    second.group.commits = dict(first.group.commits)
    second.time.advance(2)
    second.cluster.times = {B: 117}  # the first record after the first start
    second.join(B)
    assert positions(second) == {B: 117}, "neither its beginning nor what arrived since the first start is skipped"


def test_partitions_that_appear_later_begin_at_earliest() -> None:
    driver = started(None, A, B, start="latest")
    driver.cluster.ends["t"].append(7)
    driver.group.member.listener.assigned([("t", 2)])
    driver.tick()
    assert positions(driver)[("t", 2)] == 0


def test_a_group_that_has_committed_before_takes_new_partitions_from_the_beginning() -> None:
    driver = Driver(spec(source={"start": "latest"}), t=[100, 100])
    driver.group.commits[A] = Commit(40)
    driver.join(B)
    assert positions(driver) == {B: 0}


def test_f25_a_coordinator_that_is_loading_is_waited_for_inside_the_group() -> None:
    driver = Driver(spec(), t=[10, 10])
    driver.group.refuse = CommitRefused("the coordinator is loading", lost=False)
    driver.join(A, B)
    assert driver.runner.state == "waiting"
    assert not driver.group.member.closed
    driver.group.refuse = None
    driver.pass_time(5)
    driver.tick()
    assert set(positions(driver)) == {A, B}


def test_f25_a_partition_without_a_leader_does_not_hold_up_the_others() -> None:
    driver = Driver(spec(source={"start": "earliest"}), t=[10, 10])
    driver.cluster.offline = {A}
    driver.join(A, B)
    assert positions(driver) == {B: 0}
    assert driver.plan() is not None
    driver.cluster.offline = set()
    driver.pass_time(20)
    driver.tick()
    assert set(positions(driver)) == {A, B}


def test_f19_callbacks_of_a_former_consumer_are_ignored() -> None:
    driver = started(start="earliest")
    former = driver.group.member
    driver.runner.membership.leave()
    driver.join(A, B)
    former.listener.lost([A, B])
    former.listener.revoked([A, B])
    assert set(positions(driver)) == {A, B}


def test_f35_a_commit_beyond_the_end_is_looked_at_again() -> None:
    driver = Driver(spec(), t=[10, 10])
    driver.group.commits[A] = Commit(15)
    driver.group.commits[B] = Commit(10)
    driver.join(A, B)
    assert "beyond the end" in (driver.runner.reason or "")
    driver.cluster.ends["t"][0] = 20
    driver.pass_time(15)
    driver.tick()
    assert positions(driver) == {A: 15, B: 10}


def test_f35_a_commit_beyond_the_last_stable_offset_is_no_reason_to_stop() -> None:
    driver = Driver(spec(), t=[10])
    driver.group.commits[A] = Commit(15)
    driver.cluster.high = {A: 20}
    driver.join(A)
    assert positions(driver) == {A: 15}


def test_a_recreated_topic_is_read_from_its_beginning_once_nothing_is_in_flight() -> None:
    driver = started(start="earliest")
    request = planned(driver)
    driver.cluster.ids["t"] = "t-2"
    driver.runner.membership.compare_topics(driver.cluster.ids)
    driver.tick()
    driver.deliver(done(request, {A: 30, B: 30}, failures=[failed(A, 3)]))
    assert [key[1] for key in driver.store.letters] == ["t-1"], "F36: the id at the time of reading"
    driver.tick()
    assert positions(driver) == {A: 0, B: 0}
    assert {state.topic_id for state in driver.runner.partitions} == {"t-2"}


@pytest.mark.parametrize("outage", ["poll", "restart"])
def test_f6_a_stateless_pipeline_keeps_its_positions_through_an_outage(outage: str) -> None:
    driver = Driver(spec(source={"start": "latest", "stateless": True}), t=[100, 100])
    driver.runner.membership.join()
    driver.tick()
    driver.deliver(done(planned(driver), {A: 110, B: 110}))
    driver.cluster.ends["t"] = [200, 200]
    if outage == "poll":
        driver.cluster.unavailable = True
        driver.pass_time(60)
        driver.tick()
        driver.cluster.unavailable = False
    else:
        driver.runner.membership.leave()
        driver.runner.membership.join()
    driver.pass_time(10)
    driver.tick()
    assert positions(driver) == {A: 110, B: 110}


def test_an_outage_of_a_stateless_pipelines_broker_is_shown_until_it_answers() -> None:
    driver = Driver(spec(source={"start": "latest", "stateless": True}), t=[100, 100])
    driver.runner.membership.join()
    driver.tick()
    assert driver.runner.membership.trouble() is None
    driver.cluster.unavailable = True
    driver.pass_time(60)
    driver.tick()
    assert driver.runner.membership.trouble()
    assert not driver.runner.membership.is_well
    driver.cluster.unavailable = False
    driver.pass_time(10)
    driver.tick()
    assert driver.runner.membership.trouble() is None


def test_f6_a_stateless_pipeline_that_was_stopped_begins_by_its_policy_again() -> None:
    driver = Driver(spec(source={"start": "latest", "stateless": True}), t=[100, 100])
    driver.runner.membership.join()
    driver.tick()
    driver.runner.membership.leave()
    driver.runner.membership.forget_start()
    driver.cluster.ends["t"] = [200, 200]
    driver.runner.membership.join()
    driver.tick()
    assert positions(driver) == {A: 200, B: 200}


# -- revoke ----------------------------------------------------------------------------------


def test_a_revoked_partition_is_finished_and_committed_before_it_is_released() -> None:
    driver = started(start="earliest")
    request = planned(driver)
    driver.runner.deliver(done(request, {A: 30, B: 30}), 1.0)
    driver.group.member.listener.revoked([A])
    assert driver.group.offset(A) == 30
    assert set(positions(driver)) == {B}


def test_a_drain_that_takes_too_long_kills_the_worker_before_the_partition_is_released() -> None:
    driver = started(start="earliest")
    request = planned(driver)
    driver.group.member.listener.revoked([A, B])
    assert driver.dispatcher.cancelled == [{request.unit}]


def deferring(driver: Driver) -> None:
    """A unit has come back, and one event of A waits for its acknowledgement."""
    outcome = done(planned(driver), {A: 30, B: 30}, pending={A: (12,)})
    outcome.partitions[0].deferred = 1
    driver.deliver(outcome)
    driver.tick()


def test_i10_a_revoked_partition_is_held_until_its_deferred_events_are_acknowledged() -> None:
    driver = started(start="earliest")
    deferring(driver)
    collecting: list[UnitRequest] = []

    def lane(*_: object) -> None:
        if not collecting and (request := driver.plan()) is not None:
            collecting.append(request)
            driver.runner.deliver(done(request, {}), 1.0)

    driver.dispatcher.on_ready = lane
    driver.group.member.listener.revoked([A])
    [request] = collecting
    assert (request.collect, [a.key for a in request.assignments]) == (True, [A])
    assert driver.group.offset(A) == 30


def test_a_drain_ends_in_time_where_nothing_is_acknowledged_and_kills_no_worker() -> None:
    driver = started(start="earliest")
    deferring(driver)

    def lane(*_: object) -> None:
        if (request := driver.plan()) is not None:
            assert request.collect
            driver.time.advance(request.seconds)
            outcome = done(request, {}, pending={A: (12,)})
            outcome.partitions[0].deferred = 1
            driver.runner.deliver(outcome, 1.0)

    driver.dispatcher.on_ready = lane
    began = driver.time.now
    driver.group.member.listener.revoked([A])
    assert driver.time.now - began <= driver.runner.spec.options.drain_timeout
    assert driver.dispatcher.cancelled == []
    assert driver.group.offset(A) == 12


def test_a_worker_that_dies_takes_the_acknowledgements_with_it() -> None:
    driver = started(start="earliest")
    deferring(driver)
    request = planned(driver)
    driver.runner.lose({request.unit}, {}, stage=None, reason="killed")
    driver.runner._read_mail(0.0)
    began = driver.time.now
    driver.group.member.listener.revoked([A, B])
    assert driver.time.now == began, "there is nothing to wait for"


def test_f27_a_drain_while_the_store_is_unavailable_kills_no_worker() -> None:
    driver = started(start="earliest")
    driver.store.unavailable = True
    driver.deliver(done(planned(driver), {A: 10}, failures=[failed(A, 3)]))
    driver.group.member.listener.revoked([A, B])
    assert driver.dispatcher.cancelled == []
