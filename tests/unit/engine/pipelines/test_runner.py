"""A runner carries out the desired state, halts, verifies its membership after a pause, and plans nothing meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.kafka.group_consumer import CommitRefused
from penstock.pipeline.messages import Halt, UnitRequest
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


def test_a_paused_pipeline_keeps_its_partitions_and_plans_nothing(driver: Driver) -> None:
    request = planned(driver)
    driver.runner.set_desired(replace(driver.desired.state, state="paused", revision=3, by="anna"))
    driver.tick()
    assert driver.runner.state == "running", "what is in flight is finished first"
    driver.deliver(done(request, {A: 10}))
    driver.tick()
    assert (driver.runner.state, driver.runner.observed_revision) == ("paused", 3)
    assert driver.plan() is None
    assert len(driver.runner.partitions) == 2
    driver.runner.set_desired(replace(driver.desired.state, state="running", revision=4))
    driver.tick()
    assert driver.plan() is not None


def test_throw_settles_and_commits_what_went_before_and_fails_everywhere(driver: Driver) -> None:
    outcome = done(planned(driver), {A: 5})
    outcome.failures, outcome.halt = [failed(A, 5)], Halt("throw", "ValueError", "bad")
    driver.deliver(outcome)
    assert driver.group.offset(A) == 5, "the failing offset is not committed"
    assert driver.store.offsets_of_letters == [5]
    assert driver.desired.asked == [("fail", "ValueError: bad")]
    assert driver.runner.state == "failed"


def test_throw_plans_nothing_more_while_the_failure_is_written_down(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failing event is the first of its partition, whose position does not move: no commit is waited for."""
    tried: list[UnitRequest | None] = []
    fail = driver.desired.fail

    def slowly(*given: Any) -> None:
        tried.append(driver.plan())
        fail(*given)

    monkeypatch.setattr(driver.desired, "fail", slowly)
    outcome = done(planned(driver), {})
    outcome.failures, outcome.halt = [failed(A, 0)], Halt("throw", "ValueError", "bad")
    driver.deliver(outcome)
    assert tried == [None]
    assert driver.runner.state == "failed"


def test_the_breaker_pauses_on_every_instance(driver: Driver) -> None:
    outcome = done(planned(driver), {A: 5})
    outcome.halt = Halt("breaker", "ValueError", "50 of the last 50 events failed")
    driver.deliver(outcome)
    assert driver.desired.asked == [("pause", "50 of the last 50 events failed")]


def test_i06_an_outage_is_waited_out_and_moves_nothing(driver: Driver) -> None:
    outcome = done(planned(driver), {})
    outcome.halt = Halt("outage", "http", "the target does not answer", retry_after=30.0)
    driver.deliver(outcome)
    assert (driver.runner.state, driver.runner.reason) == ("waiting", "the target does not answer")
    driver.pass_time(10)
    assert driver.plan() is None, "the target asked for half a minute"
    driver.pass_time(25)
    driver.deliver(done(planned(driver), {A: 10}))
    driver.tick()
    assert driver.runner.state == "running"


def test_after_a_pause_of_the_process_ownership_is_verified_before_anything_is_planned(driver: Driver) -> None:
    driver.time.advance(20)
    assert driver.plan() is None, "lane threads may resume before the runner's thread does"
    driver.group.refuse = CommitRefused("unknown member", lost=True)
    driver.tick()
    assert driver.plan() is None
    driver.group.refuse = None
    driver.tick()
    assert driver.plan() is not None


def test_f16_nothing_is_planned_while_the_group_has_not_been_heard_of(driver: Driver) -> None:
    """An open commit keeps the client from serving rebalances: the session may have expired meanwhile."""
    driver.deliver(done(planned(driver), {A: 10}))
    driver.group.answers = False
    driver.pass_time(5)
    assert driver.plan() is None
    driver.group.answers = True
    driver.pass_time(1)
    assert driver.plan() is not None


def test_an_error_of_the_worker_rebuilds_what_it_holds(driver: Driver) -> None:
    request = planned(driver)
    outcome = done(request, {})
    outcome.halt = Halt("error", "KeyError", "KeyError: 'x'")
    driver.deliver(outcome)
    driver.pass_time(60)
    assert planned(driver).revision != request.revision


def test_a_pipeline_that_cannot_be_built_here_leaves_its_group(driver: Driver) -> None:
    outcome = done(planned(driver), {})
    outcome.halt = Halt("build", "plugin", "no such action")
    driver.deliver(outcome)
    assert driver.runner.state == "failed"
    assert driver.runner._leaves


def test_a_quiet_pipeline_becomes_idle_and_is_watched(driver: Driver) -> None:
    outcome = done(planned(driver), {A: 100, B: 100})
    for part in outcome.partitions:
        part.at_end = True
    driver.deliver(outcome)
    driver.pass_time(70)
    assert driver.runner.activity.is_idle
    assert driver.runner.state == "idle"
    assert driver.plan() is not None, "a lane that wakes it finds it ready"


def test_a_run_ends_by_leaving_the_group_with_everything_committed(driver: Driver) -> None:
    runner = driver.runner
    runner.start = lambda: None  # type: ignore[method-assign]  # no thread in this test
    request = planned(driver)
    runner.deliver(done(request, {A: 10, B: 10}), 1.0)
    runner.stop()
    runner._read_mail(0.0)
    runner._placed = True
    runner._run()
    assert (driver.group.offset(A), driver.group.offset(B)) == (10, 10)
    assert runner.state == "stopped"
    assert runner.wait_ended(0.0)


def test_a_fatal_error_of_the_group_is_a_defect_and_not_a_restart_loop() -> None:
    driver = Driver(spec(), t=[0])
    runner = driver.runner
    runner._place()
    polls: list[int] = []

    def poll(timeout: float) -> bool:
        polls.append(1)
        if len(polls) > 3:
            runner.stop()
        raise ConfigError("not allowed to read the group", hint="grant access")

    driver.group.make(None, "p", None)
    runner.membership.poll = poll  # type: ignore[method-assign]  # what the client reports
    original = runner._read_mail
    runner._read_mail = lambda timeout: runner.stop() if runner.state == "failed" else original(timeout)  # type: ignore[method-assign,assignment]
    runner._run()
    assert runner.state == "failed"
    assert len(polls) == 1
