"""A process is ended only if it is the one that was meant: a process id may be another's by now."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.engine.spark import worker_process
from penstock.engine.spark.worker_process import WorkerProcess, end, identify, is_alive

LANE = "shared-0"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    code = "import time; print(flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PENSTOCK_LANE": LANE}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_worker_of_the_lane_is_ended_and_gone_then(child: subprocess.Popen[bytes]) -> None:
    process = identify(child.pid, LANE)
    assert process is not None
    assert is_alive(process)
    assert end(process)
    assert not is_alive(process), "one that only waits to be collected is gone"
    assert child.wait() == -9
    assert end(process), "once more does no harm"


def test_f33_another_process_with_the_same_id_is_left_alone(child: subprocess.Popen[bytes]) -> None:
    process = identify(child.pid, LANE)
    assert process is not None
    assert end(replace(process, started=process.started - 1))
    assert child.poll() is None


def test_f33_processes_of_other_lanes_and_of_other_programs_are_not_ours(child: subprocess.Popen[bytes]) -> None:
    assert identify(child.pid, "shared-1") is None
    assert identify(1, LANE) is None
    assert identify(2**22 + 1, LANE) is None


def test_without_proc_the_id_is_all_there_is(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_HAS_PROC", False)
    assert identify(child.pid, LANE) == WorkerProcess(child.pid, 0)
    assert is_alive(WorkerProcess(child.pid, 0))
