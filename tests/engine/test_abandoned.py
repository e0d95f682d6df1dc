"""Work that does not end while a partition is handed over is given up; what stays with the instance goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.engine import Engine, pipeline
from tests.support.group import other_member
from tests.support.kafka import KafkaBroker
from tests.support.kafka_client import Sent
from tests.support.waiting import until

WAIT_S = 60.0


def test_partitions_that_stay_are_worked_on_after_a_drain_that_timed_out(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "sticky.py",
        """
        import pathlib, time

        def act(event, config):
            while pathlib.Path(config["path"], "hold").exists():
                time.sleep(0.05)
            with open(pathlib.Path(config["path"], "out"), "a") as file:
                file.write(f"{event.meta['kafka']['partition']}\\n")
        """,
    )
    name, out = topic(partitions=2), tmp_path / "out"
    (tmp_path / "hold").touch()
    document = pipeline(
        "sticky",
        kafka.bootstrap,
        [name],
        action={"type": "python", "config": {"callable": "./sticky.py:act", "config": {"path": str(tmp_path)}}},
        options={"drain_timeout": "1s"},
    )
    kafka.produce(name, [Sent(json.dumps({"id": i}).encode(), partition=i % 2) for i in range(10)])
    flow = engine.run(document)
    until(lambda: flow.busy, WAIT_S, "a unit that holds both partitions")
    # One unit, both partitions; one of them is taken away while the unit hangs.
    with other_member(kafka, "sticky", name, owns=1) as other:
        (tmp_path / "hold").unlink()
        ((_, theirs),) = other.owned

        def ours_is_done() -> bool:
            return kafka.offsets("sticky").get((name, 1 - theirs)) == 5

        until(ours_is_done, WAIT_S, lambda: f"{flow.state} {flow.reason} {kafka.offsets('sticky')}")
    until(lambda: kafka.lag("sticky", name) == 0, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    engine.stop(flow)
    assert set(out.read_text().split()) == {"0", "1"}
