"""A stop at a bad moment: while the instance still starts, twice, to the whole process group, while the store is
locked. It ends in good order all the same, and leaves nobody behind."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.kafka.embedded import EmbeddedCluster
from tests.support.instance import PenstockProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark

TEXT = """\
name: orders
source: {{config: {{connection: {{bootstrap: "{bootstrap}"}}, topics: [orders], format: json}}}}
action: {{type: hello_world}}
"""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[PenstockProcess]:
    """Not started yet."""
    with EmbeddedCluster() as broker:
        file = tmp_path / "orders.yaml"
        file.write_text(TEXT.format(bootstrap=broker.bootstrap))
        made = PenstockProcess(["run", file], folder=tmp_path / "run")
        yield made
        made.close()


def jvm(instance: PenstockProcess) -> list[psutil.Process]:
    return [process for process in instance.tree() if process.name() == "java"]


def left(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def test_a_stop_while_it_starts_and_another_one_right_after(instance: PenstockProcess) -> None:
    instance.start()
    until(lambda: jvm(instance), 60, "Spark's JVM is on its way")
    tree = instance.tree()
    instance.terminate()
    instance.terminate()
    assert instance.wait(60) == 0, instance.log
    until(lambda: not left(tree), 20, lambda: left(tree))
    assert "Traceback" not in instance.log


@pytest.mark.parametrize("ready", [False, True], ids=["starts", "runs"])
def test_a_stop_of_the_whole_process_group(instance: PenstockProcess, *, ready: bool) -> None:
    """As `timeout` and some supervisors do it: Spark's JVM ends at the same moment, which is nobody's failure."""
    instance.start()
    if ready:
        instance.wait_ready(120)
    else:
        until(lambda: jvm(instance), 60, "Spark's JVM is on its way")
    tree = instance.tree()
    os.killpg(instance.pid, signal.SIGTERM)
    assert instance.wait(60) == 0, instance.log
    until(lambda: not left(tree), 20, lambda: left(tree))


def test_a_stop_while_the_store_is_locked(instance: PenstockProcess) -> None:
    instance.start().wait_ready(120)
    tree = instance.tree()
    with sqlite3.connect(instance.home / "penstock.db", isolation_level=None) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        code = instance.stop(90)
        lock.execute("ROLLBACK")
    assert code == 0, instance.log
    until(lambda: not left(tree), 20, lambda: left(tree))
