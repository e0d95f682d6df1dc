"""Self-tests of the simulation: time and threads, repeatability, and world and judge by a model driver."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from tests.simulation.campaign import campaign, run
from tests.simulation.model_driver import Mistakes, model_driver
from tests.simulation.real_driver import real_driver
from tests.simulation.schedule import Schedule, draw, lost_and_recreated
from tests.simulation.scheduler import BusyLoop, Process, Scheduler, SimThreads, no_endless_step, simulated_clock


def _scheduler() -> tuple[Scheduler, SimThreads, Process]:
    scheduler, process = Scheduler(random.Random(1)), Process("p")
    return scheduler, SimThreads(scheduler, process), process


def test_time_moves_only_when_nothing_can_run() -> None:
    scheduler, threads, process = _scheduler()
    clock, seen = simulated_clock(scheduler, process), []

    def sleeper() -> None:
        clock.sleep(5.0)
        seen.append(clock.monotonic())

    began = scheduler.now
    threads.start("sleeper", sleeper, owner="", ends="")
    scheduler.run(began + 60)
    assert seen[0] - began == pytest.approx(5.0, abs=0.05)


def test_a_mailbox_wakes_its_reader_before_the_time_out() -> None:
    scheduler, threads, _ = _scheduler()
    mailbox, seen = threads.mailbox(), []
    threads.start("reader", lambda: seen.append((mailbox.get(10.0), scheduler.now)), owner="", ends="")
    threads.start("writer", lambda: mailbox.put("mail"), owner="", ends="")
    began = scheduler.now
    scheduler.run(began + 60)
    assert seen == [("mail", began)]


def test_a_loop_without_a_switch_point_ends() -> None:
    scheduler, threads, _ = _scheduler()

    def endless() -> None:
        while True:
            with contextlib.suppress(Exception):  # what survives every error must not survive this
                sum(range(1000))

    threads.start("endless", endless, owner="", ends="")
    with pytest.raises(BusyLoop), no_endless_step(0.05):
        scheduler.run(scheduler.now + 1)


def test_blocking_under_a_lock_is_reported() -> None:
    scheduler, threads, _ = _scheduler()
    lock = threads.lock()

    def careless() -> None:
        with lock:
            scheduler.sleep(1.0)

    threads.start("careless", careless, owner="", ends="")
    scheduler.run(scheduler.now + 10)
    assert "blocks while it holds a lock" in scheduler.complaints[0]


def test_waiting_on_a_condition_releases_its_lock() -> None:
    scheduler, threads, _ = _scheduler()
    condition, seen = threads.condition(), []

    def waiter() -> None:
        with condition:
            condition.wait(10.0)
            seen.append("woken")

    def notifier() -> None:
        scheduler.sleep(1.0)
        with condition:
            condition.notify_all()

    threads.start("waiter", waiter, owner="", ends="")
    threads.start("notifier", notifier, owner="", ends="")
    scheduler.run(scheduler.now + 5)
    assert seen == ["woken"]
    assert not scheduler.complaints


def test_nothing_of_a_killed_process_runs_any_more() -> None:
    scheduler, threads, process = _scheduler()
    seen = []

    def thread() -> None:
        try:
            scheduler.sleep(5.0)
        finally:
            scheduler.sleep(1.0)
            seen.append("after its death")

    threads.start("thread", thread, owner="", ends="")
    scheduler.run(scheduler.now + 1)
    scheduler.kill(process)
    scheduler.run(scheduler.now + 60)
    assert not seen
    assert not process.tasks


def test_a_frozen_process_goes_on_when_it_is_thawed() -> None:
    scheduler, threads, process = _scheduler()
    seen = []

    def thread() -> None:
        scheduler.sleep(1.0)
        seen.append(scheduler.now)

    threads.start("thread", thread, owner="", ends="")
    process.frozen = True
    began = scheduler.now
    scheduler.run(began + 20)
    assert not seen
    scheduler.thaw(process)
    scheduler.run(began + 60)
    assert len(seen) == 1


def test_a_busy_loop_is_found() -> None:
    scheduler, threads, process = _scheduler()

    def loop() -> None:
        while True:
            scheduler.pause()

    threads.start("loop", loop, owner="", ends="")
    with pytest.raises(BusyLoop):
        scheduler.run(scheduler.now + 1)
    scheduler.close([process])


@pytest.mark.parametrize("seed", [3, 44, 1001])
def test_a_seed_means_the_same_schedule_and_the_same_steps(seed: int) -> None:
    first, second = (run(draw(seed), real_driver, trace=True) for _ in range(2))
    assert first.scheduler.steps == second.scheduler.steps
    assert [moment for moment, _ in first.notes] == [moment for moment, _ in second.notes]


_STEPS = """
from tests.simulation.campaign import draw, run, seeds
from tests.simulation.real_driver import real_driver
numbers = seeds(77)
print([run(draw(next(numbers)), real_driver).scheduler.steps for _ in range(12)])
"""


def test_a_seed_means_the_same_steps_in_every_process() -> None:
    """Nothing depends on the hashes of strings or on memory addresses."""
    told = {
        subprocess.run(
            [sys.executable, "-c", _STEPS],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def _with_groups(schedule: Schedule) -> Schedule:
    """The model driver knows no stateless pipelines."""
    return replace(schedule, pipelines=tuple(replace(p, stateless=False) for p in schedule.pipelines))


def test_nothing_is_found_in_the_model_driver() -> None:
    summary = campaign(model_driver(), seed=1, schedules=150, change=_with_groups)
    assert not summary.failures, summary.failures[0].report(model_driver())


SCENES = {"no_epoch_check": lost_and_recreated}


@pytest.mark.parametrize("mistake", [field.name for field in fields(Mistakes)])
def test_each_mistake_of_the_model_driver_is_found(mistake: str) -> None:
    def change(schedule: Schedule) -> Schedule:
        rates = replace(schedule.rates, skips_event=0.1) if mistake == "no_account_check" else schedule.rates
        return replace(_with_groups(schedule), rates=rates)

    wrong = model_driver(Mistakes(**{mistake: True}))
    summary = campaign(wrong, seed=2, seconds=30.0, stop_at=1, scene=SCENES.get(mistake), change=change)
    assert summary.failures
