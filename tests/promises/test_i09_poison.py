"""I9: one poison event ends as one dead letter; its neighbours are never lost."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.faults.checker import Allowance
from tests.faults.scene import EFFECTS, WINDOW, Scene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker

SOFT = {
    "decode": ("decode", "decode"),
    "filter": ("filter", "LookupError"),
    "transform": ("transform", "KeyError"),
    "transform-exit": ("transform", "SystemExit"),
    "raise": ("act", "ValueError"),
    "exit": ("act", "SystemExit"),
    "nonsense": ("act", "act-result"),
    "memory": ("crash", "MemoryError"),
}
"""Kinds that the process survives: stage and code of the letter."""
HARD = {"end": "crash", "segfault": "crash", "hang": "timeout"}
GOOD = None


def positions(kind: str) -> list[str | None]:
    """First, last, alone and in pairs, between good ones and beside other poison."""
    return [kind, GOOD, kind, kind, GOOD, GOOD, kind]


def test_i09_poison_of_every_kind_in_every_stage_and_position(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path
) -> None:
    wanted = [do for kind in SOFT for do in positions(kind)]
    wanted += [GOOD, *(do for kind in HARD for do in (kind, GOOD))]
    wanted = ["raise", *wanted, "segfault"]

    def value(seq: int) -> bytes:
        return b"\xffpoison" if wanted[seq] == "decode" else json.dumps({"seq": seq, "do": wanted[seq]}).encode()

    steps = {
        "filters": [{"type": f"{EFFECTS}:Choosy"}],
        "transform": [{"type": "python", "config": {"callable": f"{EFFECTS}:change"}}],
    }
    options = {"breaker": {"enabled": False}, "timeout": "2s"}
    with Scene(kafka, tmp_path, "i09", partitions=1, values=value, options=options, **steps) as scene:
        scene.feed.send(len(wanted))
        flow = scene.run_in(engine)
        scene.caught_up()
        engine.stop(flow)
    letters = {row.offset: row for row in scene.letters()}
    assert {offset: row.stage for offset, row in letters.items()} == {
        offset: HARD.get(do) or SOFT[do][0] for offset, do in enumerate(wanted) if do
    }
    assert {offset: row.error_code for offset, row in letters.items() if wanted[offset] in SOFT} == {
        offset: SOFT[do][1] for offset, do in enumerate(wanted) if do in SOFT
    }
    # L1: the first death repeats the window that was not returned; what lies before the suspect is finished before it
    # runs alone, so the second death repeats none of it.
    times = Counter(effect.at.offset for effect in scene.effects())
    assert {offset: n for offset, n in times.items() if n > 2} == {}
    scene.verdict(Allowance(repeats=len(wanted), rewinds=2 * (len(HARD) + 1)))


SOFT_AT, DEADLY_AT, SENT = (3, 50, 60, 110, 140), 130, 150
"""A unit reads half a window at once: the first failures are of a batch that has ended when the process dies."""


def test_i09_failures_of_an_earlier_batch_outlive_the_death_of_their_process(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path
) -> None:
    def value(seq: int) -> bytes:
        return json.dumps(
            {"seq": seq, "do": "raise" if seq in SOFT_AT else "kill" if seq == DEADLY_AT else None}
        ).encode()

    options = {"breaker": {"enabled": False}}
    ways = ("plain", "batch", "keyed", "deferred")
    scenes = [
        Scene(kafka, tmp_path / way, f"i09-{way}", partitions=1, values=value, way=way, options=options) for way in ways
    ]
    with ExitStack() as stack:
        for scene in scenes:
            stack.enter_context(scene).feed.send(SENT)
        flows = [scene.run_in(engine) for scene in scenes]
        for scene in scenes:
            scene.caught_up()
        for flow in flows:
            engine.stop(flow)
    for scene in scenes:
        stages = {letter.offset: letter.stage for letter in scene.letters()}
        assert stages == dict.fromkeys(SOFT_AT, "act") | {DEADLY_AT: "crash"}, scene.name
        # Each pipeline's own deadly event kills twice; those of its neighbours in the lane may do so, too.
        deaths = 2 * len(scenes)
        scene.verdict(Allowance(repeats=deaths * WINDOW, rewinds=deaths))
