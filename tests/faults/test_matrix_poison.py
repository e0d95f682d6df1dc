"""Poison of every kind in every stage and position, under every way of acting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.checker import Allowance
from tests.faults.outcome import Row
from tests.faults.scene import EFFECTS, WAYS, WINDOW, Scene
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
CASES = [(way, kind) for way in ("plain", "keyed", "unordered", "deferred") for kind in (*SOFT, *HARD)]
# What a batch action raises concerns its whole batch; so only what it can say of one event, and what kills it.
CASES += [("batch", kind) for kind in ("decode", "filter", "raise", "end", "hang")]


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
    options = {"breaker": {"enabled": False}, "timeout": "2s"}
    allowed = Allowance(repeats=2 * len(wanted), rewinds=2 * len(wanted)) if kind in HARD else Allowance()
    name = f"poison-{way}-{kind}"
    with Scene(kafka, tmp_path, name, partitions=1, values=value, way=way, options=options, **steps) as scene:
        scene.feed.send(len(wanted))
        flow = scene.run_in(poisoned)
        scene.caught_up()
        poisoned.stop(flow)
    expected = [offset for offset, do in enumerate(wanted) if do]
    letters = {letter.offset: letter.stage for letter in scene.letters()}
    assert sorted(letters) == expected
    assert set(letters.values()) <= STAGES[kind]
    row.kept(scene.verdict(allowed), allowed)


MIXES = {
    "in one batch": {2: "raise", 3: "kill", 4: "raise", 5: "decode"},
    "death in a later batch": {1: "raise", 2: "decode", 60: "filter", 130: "kill", 140: "raise"},
    "deaths in several batches": {
        5: "raise",
        40: "kill",
        41: "raise",
        120: "end",
        121: "raise",
        220: "kill",
        290: "raise",
    },
    "hang in a later batch": {1: "raise", 60: "raise", 130: "hang", 131: "raise"},
    "death of a later window": {1: "raise", 199: "raise", 201: "kill", 203: "raise"},
}
"""What stands where: a unit reads half a window at once, and a window ends after 200 events."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mix", MIXES)
def test_soft_failures_and_deaths(  # noqa: PLR0917 - fixtures and parameters
    kafka: KafkaBroker, poisoned: Engine, tmp_path: Path, row: Row, way: str, mix: str
) -> None:
    wanted, sent = MIXES[mix], 300

    def value(seq: int) -> bytes:
        do = wanted.get(seq)
        return b"\xffpoison" if do == "decode" else json.dumps({"seq": seq, "do": do}).encode()

    options = {"breaker": {"enabled": False}, "timeout": "2s"}
    filters = [{"type": f"{EFFECTS}:Choosy"}]
    name = f"mix-{way}-{mix.replace(' ', '-')}"
    with Scene(kafka, tmp_path, name, partitions=1, values=value, way=way, options=options, filters=filters) as scene:
        scene.feed.send(sent)
        flow = scene.run_in(poisoned)
        scene.caught_up()
        poisoned.stop(flow)
    # Each deadly event kills twice; each death repeats what was not returned.
    deaths = 2 * sum(do in HARD for do in wanted.values())
    allowed = Allowance(repeats=deaths * WINDOW, rewinds=deaths)
    assert {letter.offset for letter in scene.letters()} == set(wanted)
    assert all(letter.stage in STAGES[wanted[letter.offset]] for letter in scene.letters())
    row.kept(scene.verdict(allowed), allowed)
