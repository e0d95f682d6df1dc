"""I9: one poison event ends as one dead letter; its neighbours are never lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.faults.checker import Allowance
from tests.faults.scene import EFFECTS, Scene
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
    # What the process had done since its last outcome goes with it where failures are among it, but only once.
    times = Counter(effect.at.offset for effect in scene.effects())
    assert {offset: n for offset, n in times.items() if n > 2} == {}
    scene.verdict(Allowance(repeats=len(wanted), rewinds=len(HARD) + 1))
