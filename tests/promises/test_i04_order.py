"""I4: events of one partition (or key) are acted on in order, also through retries, rebalances and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import Scene, fed
from tests.support.engine import Engine
from tests.support.group import other_member
from tests.support.kafka import KafkaBroker


def value(seq: int) -> bytes:
    """One in fifty succeeds at its third attempt only."""
    return json.dumps({"seq": seq, "fails": 2 if seq % 50 == 3 else 0}).encode()


RETRY = {"retry": {"attempts": 5, "backoff": "100ms", "jitter": 0.5}}


@pytest.mark.parametrize(
    ("ordering", "options"),
    [("partition", RETRY), ("key", RETRY | {"ordering": "key", "concurrency": 8})],
    ids=["partition", "key"],
)
def test_i04_retries_rebalances_and_a_restart_keep_the_order(
    engine: Engine, kafka: KafkaBroker, tmp_path: Path, ordering: Any, options: dict[str, Any]
) -> None:
    with Scene(kafka, tmp_path, f"i04-{ordering}", partitions=2, values=value, options=options, rate=100) as scene:
        with fed(scene):
            flow = scene.run_in(engine)
            for _ in range(2):
                scene.more(50)
                with other_member(kafka, scene.name, scene.topic, owns=1):
                    scene.more(20)
            scene.more(50)
            engine.stop(flow)
            flow = scene.run_in(engine)
            scene.more(50)
        engine.stop(flow)
    report = scene.verdict(ordering=ordering)
    assert report.dead_letters == 0
