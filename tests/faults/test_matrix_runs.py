"""Runs of workflows through outages of the store, and on a cluster whose executors come and go."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.outcome import Row
from tests.support.engine import Engine, coordinates, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.postgres import PostgresServer
from tests.support.spark_cluster import SparkCluster
from tests.support.waiting import until
from tests.support.work import Work

pytestmark = pytest.mark.faults
WAIT_S = 180.0
OUTAGE_S = 40.0
"""Longer than a run may be silent before it counts as lost (30 s)."""
STEPS = """
import os, time
from pathlib import Path

def hold(state):
    with open(state["data"]["began"], "a") as began:
        began.write(f"{os.getpid()}\\n")
    while Path(state["data"]["hold"]).exists():
        time.sleep(0.01)
    return {"done": True}
"""


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


class HeldRun:
    """A run whose one step lasts until it is released."""

    def __init__(self, engine: Engine, work: Work, folder: Path, name: str) -> None:
        self.engine, self.work, self.folder = engine, work, folder / name
        self.folder.mkdir()
        (self.folder / "hold").touch()
        engine.module("steps.py", STEPS)
        step = {"name": "hold", "kind": "python", "config": {"callable": "./steps.py:hold", "config": {}}}
        definition: dict[str, Any] = {"steps": [step], "edges": [], "triggers": [], "folder": str(engine.folder)}
        flow = work.workflow(work.project(name), name, definition=definition)
        self.run = work.order(flow, {"began": str(self.folder / "began"), "hold": str(self.folder / "hold")})

    @property
    def begun(self) -> int:
        """How often the step was begun."""
        file = self.folder / "began"
        return len(file.read_text().split()) if file.exists() else 0

    def await_begun(self) -> None:
        until(lambda: self.begun, WAIT_S, lambda: f"the step to begin: {self.work.run(self.run)}")

    def ends_once(self) -> None:
        (self.folder / "hold").unlink()
        until(lambda: self.work.run(self.run)["finished_at"], WAIT_S, lambda: str(self.work.run(self.run)))
        assert self.work.state(self.run)[0] == "success", self.work.run(self.run)
        assert self.begun == 1, "the run was executed twice"
        assert len(self.work.runs_of(self.run)) == 1


def test_a_run_is_executed_while_the_store_is_away_for_longer_than_a_run_may_be_silent(
    postgres: PostgresServer, tmp_path: Path, row: Row
) -> None:
    """F7: no heartbeat can be written during the outage; that is not the run's fault."""
    with Engine(tmp_path / "engine", environ={"PENSTOCK_STORE_URL": postgres.create_database()}) as engine:
        held = HeldRun(engine, Work(engine.store.database), tmp_path, "outage")
        held.await_begun()
        postgres.stop()
        time.sleep(OUTAGE_S)  # the fault itself
        postgres.start()
        until(lambda: answers(engine), WAIT_S, "the store to be reached again")
        held.ends_once()
    row.verdict = "kept"


def answers(engine: Engine) -> bool:
    try:
        engine.store.ping()
    except Exception:  # noqa: BLE001 - whatever a database that is not up yet says
        return False
    return True


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(cores=2) as running:
        yield running


def kill_executors(cluster: SparkCluster, known: set[int]) -> set[int]:
    """Kill executors that were not killed before."""
    fresh = until(lambda: set(cluster.executor_pids()) - known, WAIT_S, lambda: f"an executor\n{cluster.logs()}")
    for pid in fresh:
        os.kill(pid, signal.SIGKILL)
    return known | fresh


def test_executors_are_killed_again_and_again(
    cluster: SparkCluster, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path, row: Row
) -> None:
    """F9: executors that are lost are an outage; no event is to blame, however often."""
    name, out, sent = topic(partitions=2), tmp_path / "out.jsonl", 0
    action = {"type": "file", "config": {"path": str(out)}}
    with Engine(tmp_path / "engine", environ=cluster.environ) as engine:
        flow = engine.run(pipeline("cluster-losses", kafka.bootstrap, [name], action=action))
        killed: set[int] = set()
        for _ in range(4):
            kafka.produce(name, [json.dumps({"id": i}).encode() for i in range(sent, sent + 200)])
            sent += 200
            killed = kill_executors(cluster, killed)
        until(lambda: kafka.lag("cluster-losses", name) == 0, WAIT_S, lambda: f"{flow.state} {flow.reason}")
        engine.stop(flow)
        assert engine.dead_letters("cluster-losses") == []
    expected = {(name, p, o) for p, end in kafka.end_offsets(name).items() for o in range(end)}
    assert set(coordinates(out)) == expected
    row.verdict, row.produced = "kept", sent


def test_a_run_on_a_cluster_lasts_longer_than_a_window(
    cluster: SparkCluster, postgres: PostgresServer, tmp_path: Path, row: Row
) -> None:
    """F8: two runs after each other, each longer than the watch over windows waits."""
    environ = cluster.environ | {"PENSTOCK_STORE_URL": postgres.create_database()}
    with Engine(tmp_path / "engine", environ=environ) as engine:
        work = Work(engine.store.database)
        for number in range(2):
            held = HeldRun(engine, work, tmp_path, f"long-{number}")
            held.await_begun()
            time.sleep(OUTAGE_S)  # the fault itself
            held.ends_once()
    row.verdict = "kept"
