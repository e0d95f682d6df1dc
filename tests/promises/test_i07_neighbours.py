"""I7: a pipeline that fails, hangs or floods does not stop or slow another beyond its fair share."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

from tests.faults.scene import WAIT_S, Scene
from tests.support.engine import Engine
from tests.support.kafka import KafkaBroker
from tests.support.waiting import until

TIMEOUT_S = 3.0
"""`timeout` of the pipelines that hang; `test_matrix_neighbours` has the default."""
REPLACED_S = 10.0
"""A worker that is replaced, on a busy machine, and how long the watch over lanes waits beyond a time-out."""
AT_MOST_S = TIMEOUT_S + REPLACED_S
"""Longest wait of an event of the quiet pipeline. An action that holds the interpreter's lock stops every thread of its
process: nothing but the end of its time-out, from outside, frees its mates."""
USUAL_S = 0.5


def always(do: str) -> bytes:
    return json.dumps({"seq": 0, "do": do}).encode()


def test_i07_a_quiet_pipeline_goes_on_beside_bad_neighbours(engine: Engine, kafka: KafkaBroker, tmp_path: Path) -> None:
    no_breaker = {"breaker": {"enabled": False}}
    wide = {"window": {"max_records": 100_000}}
    quiet = Scene(kafka, tmp_path / "quiet", "i07-quiet", partitions=2)
    bad = [
        Scene(kafka, tmp_path / do, f"i07-{do}", partitions=2, values=lambda _, do=do: always(do), options=options)
        for do, options in (
            ("raise", no_breaker | wide),
            ("hang", no_breaker | {"timeout": f"{TIMEOUT_S:g}s"}),
            ("seize", no_breaker | {"timeout": f"{TIMEOUT_S:g}s"}),
            ("end", no_breaker),
            ("flood", wide),
        )
    ]
    flows = [quiet.run_in(engine)]
    quiet.feed.send(1)
    until(lambda: quiet.count() == 1, WAIT_S, "the quiet pipeline to begin")
    for scene in bad:
        scene.feed.send({"flood": 50_000, "raise": 5_000}.get(scene.name.removeprefix("i07-"), 3))
        flows.append(scene.run_in(engine))
    waits = []
    for _ in range(40):
        before, began = quiet.count(), time.monotonic()
        quiet.feed.send(1)
        until(lambda n=before: quiet.count() > n, WAIT_S, lambda: f"{flows[0].state} {flows[0].reason}", every_s=0.01)
        waits.append(time.monotonic() - began)
    told = f"waits of the quiet pipeline: {[round(w, 2) for w in waits]}"
    assert max(waits) <= AT_MOST_S, told
    assert statistics.median(waits) <= USUAL_S, told
    for scene in bad:
        scene.caught_up()
    stages = {scene.name: {row.stage for row in scene.letters()} for scene in bad}
    assert stages.pop("i07-seize") <= {"timeout", "crash"}
    assert stages.pop("i07-hang") <= {"timeout", "crash"}
    assert stages == {"i07-raise": {"act"}, "i07-end": {"crash"}, "i07-flood": set()}
    assert [len(scene.letters()) for scene in bad] == [5_000, 3, 3, 3, 0]
    for flow in flows:
        engine.stop(flow)
