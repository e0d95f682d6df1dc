"""The tests' own tools: waiting, children, metrics."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.support.children import Children
from tests.support.instance import metric_sum
from tests.support.ports import accepts, free_port
from tests.support.waiting import until


def test_until_returns_what_the_condition_found() -> None:
    answers = iter([None, 0, "found"])
    assert until(lambda: next(answers), 5, "an answer", every_s=0) == "found"


def test_until_says_how_far_things_got() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: seen 7"):
        until(lambda: False, 0.01, lambda: "seen 7", every_s=0.001)


def test_free_ports_are_free_and_differ() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    assert not any(accepts(port) for port in ports)


def test_children_that_were_forgotten_are_ended_with_their_folders() -> None:
    children = Children()
    child = children.spawn(
        [sys.executable, "-c", "import time; time.sleep(600)"], name="sleeper", output=subprocess.DEVNULL
    )
    folder = children.folder(Path(tempfile.mkdtemp(prefix="penstock-children-")))
    assert children.left() == [f"sleeper (pid {child.pid})"]
    children.close()
    assert child.returncode == -9
    assert not folder.exists()


def test_children_end_when_the_run_is_killed() -> None:
    script = (
        "import subprocess, sys, os; from tests.support.children import CHILDREN as c;"
        "p = c.spawn([sys.executable, '-c', 'import time; time.sleep(600)'], name='s', output=subprocess.DEVNULL);"
        "print(p.pid, flush=True); os._exit(3)"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 3
    pid = int(done.stdout)
    until(lambda: not psutil.pid_exists(pid), 10, "the child of a killed run has ended")


def test_metric_sum() -> None:
    text = 'a_total{p="x",o="ok"} 2\na_total{p="y",o="ok"} 3\na_total{p="y",o="bad"} 4\nb_total 1\n'
    assert metric_sum(text, "a_total", {"p": "y"}) == 7
    assert metric_sum(text, "a_total", {}) == 9
