"""Neighbours of a pipeline whose action holds the interpreter's lock, with default settings."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from penstock.config.spec import OptionsSpec
from penstock.engine.lanes.lane_worker import OVERRUN
from tests.faults.outcome import Row
from tests.faults.scene import WAIT_S, Scene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

pytestmark = pytest.mark.faults

PROMISED_S = OptionsSpec().timeout + OVERRUN
"""How long an action may hold its process at most: nothing inside the process can end it, so the driver does."""
REPLACED_S = 15.0
"""Until another process is there, on a busy machine."""


def test_an_action_that_holds_the_interpreter_with_the_default_timeout(
    kafka: KafkaBroker, tmp_path: Path, row: Row
) -> None:
    def seizes(seq: int) -> bytes:
        return json.dumps({"seq": seq, "do": "seize" if seq == 1 else None}).encode()

    environ = {"PENSTOCK_ENGINE_CARPOOL_LANES": "1"}
    with (
        Engine(tmp_path / "engine", environ=environ) as engine,
        Scene(kafka, tmp_path / "quiet", "gil-quiet", partitions=1) as quiet,
        Scene(kafka, tmp_path / "bad", "gil-bad", partitions=1, values=seizes) as bad,
    ):
        flows = [quiet.run_in(engine), bad.run_in(engine)]
        for scene in (quiet, bad):
            scene.feed.send(1)
            until(lambda scene=scene: scene.count() == 1, WAIT_S, "both pipelines to begin")
        bad.feed.send(3)
        waits = []
        while len(bad.letters()) < 1 or len(waits) < 5:
            before, began = quiet.count(), time.monotonic()
            quiet.feed.send(1)
            until(lambda n=before: quiet.count() > n, WAIT_S, lambda: f"{flows[0].state} {flows[0].reason}")
            waits.append(time.monotonic() - began)
        bad.caught_up()
        quiet.caught_up()
        for flow in flows:
            engine.stop(flow)
        (letter,) = bad.letters()
    assert (letter.offset, letter.stage) in {(1, "timeout"), (1, "crash")}
    # The event may hold its process twice: among its mates, and alone.
    assert max(waits) <= PROMISED_S + REPLACED_S, [round(wait, 1) for wait in waits]
    assert {effect.seq for effect in quiet.effects()} == {record.seq for record in quiet.feed.produced}
    assert {effect.seq for effect in bad.effects()} == {0, 2, 3}
    row.verdict, row.produced, row.recovered = "kept", len(quiet.feed.produced), round(max(waits), 1)
