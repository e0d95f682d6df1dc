"""Pipelines on a Spark standalone cluster: executors of that cluster act, with the code that the driver sent them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.config.settings import EngineSettings, Settings
from penstock.engine.lanes.lane import LaneSizes
from penstock.engine.pipelines.runner import PipelineRunner
from penstock.engine.spark.cluster import SparkStartError
from penstock.engine.spark.context import Spark, WindowRepeated
from penstock.worker.protocol import REPEATED, WindowOutcome, WindowRequest
from tests.support.engine import Engine, coordinates, lines, pipeline
from tests.support.kafka import KafkaBroker
from tests.support.spark_cluster import SparkCluster
from tests.support.waiting import until

WAIT_S = 90.0

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(cores=2) as running:
        yield running


def test_a_cluster_without_room_is_named(
    cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before the instance of the other tests: a process has one Spark context at a time.
    monkeypatch.setattr("penstock.engine.spark.cluster._EXECUTORS_WITHIN", 2.0)
    environ = cluster.environ | {"PENSTOCK_SPARK_CONF_SPARK_EXECUTOR_MEMORY": "100g"}
    settings = Settings.load({"PENSTOCK_HOME": str(tmp_path)} | environ, cwd=tmp_path)
    spark = Spark(master=settings.spark.master, conf=settings.spark.conf, home=tmp_path)
    try:
        with pytest.raises(SparkStartError, match="no executor within 2 seconds") as refused:
            spark.start()
    finally:
        spark.stop()
    assert "spark.executor.memory" in (refused.value.hint or "")
    until(lambda: not cluster.applications(), WAIT_S, "the driver to be gone")


@pytest.fixture(scope="module")
def engine(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine"), environ=cluster.environ) as running:
        yield running


def numbers(count: int) -> list[bytes]:
    return [json.dumps({"id": i}).encode() for i in range(count)]


def caught_up(kafka: KafkaBroker, flow: PipelineRunner, topic: str, cluster: SparkCluster) -> None:
    until(
        lambda: kafka.lag(flow.spec.group, topic) == 0,
        WAIT_S,
        lambda: f"{flow.state} {flow.reason} {flow.stats.counts}\n{cluster.logs()}",
    )


def test_every_event_arrives_once_and_the_group_holds_the_position(
    engine: Engine, cluster: SparkCluster, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(partitions=4), tmp_path / "out.jsonl"
    kafka.produce(name, numbers(5000))
    flow = engine.run(
        pipeline("cluster-file", kafka.bootstrap, [name], action={"type": "file", "config": {"path": str(out)}})
    )
    caught_up(kafka, flow, name, cluster)
    kafka.produce(name, numbers(200))
    caught_up(kafka, flow, name, cluster)
    engine.stop(flow)

    assert list(cluster.folder.glob("work/app-*/*/penstock.zip"))
    seen = coordinates(out)
    assert len(seen) == len(set(seen)) == 5200
    for partition in range(4):
        offsets = [o for _, p, o in seen if p == partition]
        assert offsets == sorted(offsets)
    assert flow.stats.summary().failed == 0


WITNESS = """
import json
import os
from pathlib import Path

import penstock
import penstock.worker.window

def ancestors():
    pid, found = os.getpid(), []
    for _ in range(4):
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return found

def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().replace(chr(0), " ")

def act(event, config):
    if event.event.get("poison"):
        raise ValueError("no such order")
    pids = ancestors()
    told = {
        "id": event.event["id"],
        "pids": pids,
        "commands": [command(pid) for pid in pids],
        "code": [os.path.abspath(module.__file__) for module in (penstock, penstock.worker.window)],
    }
    with open(config["path"], "a") as file:
        file.write(json.dumps(told) + chr(10))
"""


def test_executors_of_the_cluster_act_with_the_code_that_was_sent_and_poison_is_one_dead_letter(
    engine: Engine, cluster: SparkCluster, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module("witness.py", WITNESS)
    name, out = topic(), tmp_path / "told.jsonl"
    kafka.produce(name, [*numbers(3), b'{"poison": true}', *numbers(3)])
    action = {"type": "python", "config": {"callable": "./witness.py:act", "config": {"path": str(out)}}}
    flow = engine.run(pipeline("cluster-python", kafka.bootstrap, [name], action=action))
    caught_up(kafka, flow, name, cluster)
    engine.stop(flow)

    told: list[dict[str, Any]] = lines(out)
    assert [line["id"] for line in told] == [0, 1, 2, 0, 1, 2]
    for line in told:
        # The worker process, Spark's Python daemon, the executor, and the cluster's worker that started it.
        assert "CoarseGrainedExecutorBackend" in line["commands"][2]
        assert line["pids"][3] == cluster.worker_pid
        # The machine has the product installed as well; what ran is the copy in the executor's folder.
        assert all(path.startswith(str(cluster.folder / "work" / "app-")) for path in line["code"])
        assert all("penstock.zip/penstock/" in path for path in line["code"])
    (letter,) = engine.dead_letters("cluster-python")
    assert (letter.offset, letter.stage, letter.error_code) == (3, "act", "ValueError")
    assert flow.stats.summary().acted == 6


def test_a_slow_action_is_ended_with_its_worker_when_the_pipeline_stops(
    engine: Engine, cluster: SparkCluster, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "stuck.py",
        """
        import os, time

        def act(event, config):
            with open(config["path"], "a") as file:
                file.write(f"{os.getpid()}\\n")
            time.sleep(600)
        """,
    )
    name, out = topic(), tmp_path / "pids.txt"
    out.touch()
    kafka.produce(name, numbers(1))
    action = {"type": "python", "config": {"callable": "./stuck.py:act", "config": {"path": str(out)}}}
    flow = engine.run(
        pipeline("cluster-stuck", kafka.bootstrap, [name], action=action, options={"drain_timeout": "1s"})
    )
    until(lambda: out.read_text().split(), WAIT_S, "the action to begin")
    pid = int(out.read_text().split()[0])
    engine.stop(flow)
    until(lambda: not Path(f"/proc/{pid}").exists(), WAIT_S, f"worker {pid} to be gone")
    assert kafka.offsets("cluster-stuck").get((name, 0), 0) == 0

    after, later = topic(), tmp_path / "out.jsonl"
    kafka.produce(after, numbers(10))
    next_one = engine.run(
        pipeline("cluster-after", kafka.bootstrap, [after], action={"type": "file", "config": {"path": str(later)}})
    )
    caught_up(kafka, next_one, after, cluster)
    engine.stop(next_one)
    assert len(coordinates(later)) == 10


def test_killed_executors_lose_nothing_and_are_replaced(
    engine: Engine, cluster: SparkCluster, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, out = topic(partitions=2), tmp_path / "out.jsonl"
    action = {"type": "file", "config": {"path": str(out)}}
    kafka.produce(name, numbers(500))
    flow = engine.run(pipeline("cluster-killed", kafka.bootstrap, [name], action=action))
    until(lambda: len(lines(out)) >= 500, WAIT_S, "the first events")
    for pid in (killed := until(cluster.executor_pids, WAIT_S, "an executor")):
        os.kill(pid, signal.SIGKILL)
    kafka.produce(name, numbers(500))
    caught_up(kafka, flow, name, cluster)
    engine.stop(flow)

    others = until(cluster.executor_pids, WAIT_S, "executors in their place")
    assert not set(killed) & set(others)
    assert set(coordinates(out)) == {(name, p, o) for p, end in kafka.end_offsets(name).items() for o in range(end)}
    assert engine.dead_letters("cluster-killed") == []


def test_a_window_that_spark_repeats_blames_no_event(
    engine: Engine, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, out = topic(), tmp_path / "out.jsonl"
    run, repeated = engine.instance.spark.run, []

    def sometimes(request: WindowRequest) -> WindowOutcome:
        if len(repeated) < 4 and any(unit.pipeline == "cluster-repeated" for unit in request.units):
            repeated.append(request.lane)
            raise WindowRepeated(f"RuntimeError: {REPEATED}")
        return run(request)

    monkeypatch.setattr(engine.instance.spark, "run", sometimes)
    kafka.produce(name, numbers(20))
    action = {"type": "file", "config": {"path": str(out)}}
    flow = engine.run(pipeline("cluster-repeated", kafka.bootstrap, [name], action=action))
    until(lambda: kafka.lag(flow.spec.group, name) == 0, WAIT_S, lambda: f"{flow.state} {flow.reason}")
    engine.stop(flow)
    assert len(repeated) == 4
    assert len(coordinates(out)) == 20
    assert engine.dead_letters("cluster-repeated") == []


def test_a_deadly_event_is_found_without_a_journal(
    engine: Engine, cluster: SparkCluster, kafka: KafkaBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    engine.module(
        "deadly.py",
        """
        import os

        def act(event, config):
            if event.value["id"] == 9:
                os._exit(3)
            with open(config["path"], "a") as file:
                file.write(f"{event.value['id']}\\n")
        """,
    )
    name, out = topic(), tmp_path / "acted.txt"
    out.touch()
    kafka.produce(name, numbers(30))
    action = {"type": "python", "config": {"callable": "./deadly.py:act", "config": {"path": str(out)}}}
    flow = engine.run(pipeline("cluster-deadly", kafka.bootstrap, [name], action=action))
    caught_up(kafka, flow, name, cluster)
    engine.stop(flow)

    (letter,) = engine.dead_letters("cluster-deadly")
    assert (letter.offset, letter.stage) == (9, "crash")
    assert {int(line) for line in out.read_text().split()} == set(range(30)) - {9}


def _command_lines() -> Iterator[str]:
    """Of driver, master, worker, executors and their Python processes: all descend from this one."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            yield " ".join(process.cmdline())


def test_the_secret_is_on_no_command_line(engine: Engine, cluster: SparkCluster) -> None:
    (application,) = cluster.applications()
    assert application["cores"] == cluster.cores
    shown = list(_command_lines())
    assert sum("pyspark-shell" in line for line in shown) == 1
    assert any("CoarseGrainedExecutorBackend" in line for line in shown)
    assert not [line for line in shown if cluster.secret in line]


def test_lanes_are_as_many_as_the_cluster_has_cores(engine: Engine) -> None:
    assert engine.instance.spark.cores == 2
    assert sum(lane.role == "shared" for lane in engine.instance.dispatcher.lanes.values()) == 1
    for cores in (4, 5, 8, 16, 64):
        sizes = LaneSizes.cluster(EngineSettings(), cores)
        assert sizes.shared + sizes.dedicated + sizes.pinned + sizes.express == cores
    chosen = LaneSizes.cluster(EngineSettings(carpool_lanes=3, hot_lanes=0, pinned_lanes=2), 4)
    assert (chosen.shared, chosen.dedicated, chosen.pinned) == (3, 0, 2)


def test_without_the_secret_spark_is_not_started(tmp_path: Path) -> None:
    spark = Spark(master="spark://127.0.0.1:1", conf={}, home=tmp_path)
    try:
        with pytest.raises(SparkStartError) as refused:
            spark.start()
    finally:
        spark.stop()
    assert refused.value.received == "no spark.authenticate.secret"
    assert "spark.authenticate.secret" in (refused.value.hint or "")
