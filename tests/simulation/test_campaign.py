"""Simulated schedules of the real driver: a campaign, schedules that found mistakes before, and the
proof that mistakes are found."""

from __future__ import annotations

import os
import random

import pytest

from tests.simulation.campaign import Failure, campaign, run, shrink
from tests.simulation.mutations import MUTATIONS, Mutation, prove
from tests.simulation.real_driver import real_driver
from tests.simulation.seeds import FIXED

SECONDS = float(os.environ.get("PENSTOCK_SIMULATION_SECONDS", "60"))
"""Length of the campaign; `make simulate` runs longer ones."""
MUTATION_SECONDS = 60.0
UNTIL_REACHED = 120.0
"""Seconds more in which a busy machine may reach the rare situations that it has not been to."""


def test_a_campaign_finds_nothing_and_reaches_every_rare_situation() -> None:
    seed = int(os.environ.get("PENSTOCK_SIMULATION_SEED", "20261118"))
    print(f"seed {seed}")  # noqa: T201 - shown where the test fails
    summary = campaign(real_driver, seed=seed, seconds=SECONDS, stop_at=1, until_reached=UNTIL_REACHED)
    print(summary.text())  # noqa: T201 - shown where the test fails
    for failure in summary.failures:
        shrink(failure, real_driver)
        pytest.fail(failure.report(real_driver))
    assert summary.missing() == []


@pytest.mark.parametrize("name", FIXED)
def test_a_schedule_that_found_a_mistake_is_clean(name: str) -> None:
    world = run(FIXED[name], real_driver)
    assert not world.judge.findings, Failure(FIXED[name], world.judge.findings).report(real_driver)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mistake_in_the_driver_is_found_within_a_minute(mutation: Mutation) -> None:
    proof = prove(mutation, real_driver, seed=random.SystemRandom().getrandbits(31), seconds=MUTATION_SECONDS)
    print(f"{mutation.name}: {proof.schedules} schedules, {proof.seconds:.1f} s, {proof.finding}")  # noqa: T201 - shown where the test fails
    assert proof.finding is not None
