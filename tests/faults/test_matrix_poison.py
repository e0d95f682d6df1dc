"""Poison of every kind in every stage and position, under every way of acting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checker import Allowance
from tests.faults.outcome import Row
from tests.faults.scene import EFFECTS, Scene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker

pytestmark = pytest.mark.faults
SOFT = ["decode", "filter", "transform", "transform-exit", "raise", "exit", "nonsense", "memory"]
HARD = {"end": {"crash"}, "segfault": {"crash"}, "kill": {"crash"}, "hang": {"timeout"}, "seize": {"timeout", "crash"}}
STAGES = HARD | {
    "raise": {"act"},
    "exit": {"act"},
    "nonsense": {"act"},
    "memory": {"act", "crash"},
    "decode": {"decode"},
    "filter": {"filter"},
    "transform": {"transform"},
    "transform-exit": {"transform"},
}
WAYS: dict[str, dict[str, Any]] = {
    "serial": {},
    "strands": {"ordering": "key", "concurrency": 8},
    "unordered": {"ordering": "none", "concurrency": 8},
    "batches": {},
}
ORDER = {"strands": "key", "unordered": "none"}
CASES = [(way, kind) for way in ("serial", "strands", "unordered") for kind in (*SOFT, *HARD)]
# What a batch action raises concerns its whole batch; so only what it can say of one event, and what kills it.
CASES += [("batches", kind) for kind in ("decode", "filter", "raise", "end", "hang")]


def positions(kind: str, *, good: int = 2) -> list[str | None]:
    """First, in the middle, twice in a row, last."""
    neighbours: list[str | None] = [None] * good
    return [kind, *neighbours, kind, *neighbours, kind, kind, *neighbours, kind]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_poison(kafka: KafkaBroker, poisoned: Engine, tmp_path: Path, row: Row, case: tuple[str, str]) -> None:
    """Each kind has a topic of its own, so that each position is tried with nothing but its kind around it."""
    way, kind = case
    wanted = positions(kind)

    def value(seq: int) -> bytes:
        do = wanted[seq]
        return b"\xffpoison" if do == "decode" else json.dumps({"seq": seq, "do": do}).encode()

    steps = {
        "filters": [{"type": f"{EFFECTS}:Choosy"}],
        "transform": [{"type": "python", "config": {"callable": f"{EFFECTS}:change"}}],
    }
    options = {"breaker": {"enabled": False}, "timeout": "2s"} | WAYS[way]
    allowed = Allowance(repeats=2 * len(wanted), rewinds=2 * len(wanted)) if kind in HARD else Allowance()
    with Scene(kafka, tmp_path, f"poison-{way}-{kind}", partitions=1, values=value, options=options, **steps) as scene:
        if way == "batches":
            scene.document["action"] = {"type": f"{EFFECTS}:Batched", "config": {"log": str(scene.log)}}
        scene.feed.send(len(wanted))
        flow = scene.run_in(poisoned)
        scene.caught_up()
        poisoned.stop(flow)
    expected = [offset for offset, do in enumerate(wanted) if do]
    letters = {letter.offset: letter.stage for letter in scene.letters()}
    assert sorted(letters) == expected
    assert set(letters.values()) <= STAGES[kind]
    row.kept(scene.verdict(allowed, ordering=ORDER.get(way, "partition")), allowed)
