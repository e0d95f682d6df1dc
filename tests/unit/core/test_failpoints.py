"""Failpoints do what their file says, once, and nothing where there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import until

_PROGRAM = """
    from penstock.core.failpoints import reach
    for name in ("first", "second"):
        try:
            reach(name)
        except Exception as error:
            print(type(error).__name__, error, flush=True)
        print(name, flush=True)
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_PROGRAM)],
            env=os.environ | {"PENSTOCK_FAILPOINTS": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    return begin


def test_a_place_without_a_file_is_passed(start: Callable[[], subprocess.Popen[str]]) -> None:
    assert start().communicate(timeout=20)[0].split() == ["first", "second"]


def test_kill_happens_once(start: Callable[[], subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "second").write_text("kill\n")
    killed = start()
    assert killed.communicate(timeout=20)[0].split() == ["first"]
    assert killed.returncode == -signal.SIGKILL
    assert start().communicate(timeout=20)[0].split() == ["first", "second"]


def test_stop_waits_for_a_signal_to_go_on(start: Callable[[], subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "first").write_text("stop")
    stopped = start()
    until(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED, 20, "the process to be stopped")
    stopped.send_signal(signal.SIGCONT)
    assert stopped.communicate(timeout=20)[0].split() == ["first", "second"]


def test_error_and_nonsense_are_raised(start: Callable[[], subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "first").write_text("error")
    (tmp_path / "second").write_text("explode")
    said = start().communicate(timeout=20)[0].splitlines()
    assert said == [
        "FailpointError failpoint first",
        "first",
        "ConfigError failpoint second cannot be obeyed",
        "second",
    ]


def test_wait_holds_until_the_file_is_gone(start: Callable[[], subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "second").write_text("wait")
    held = start()
    assert held.stdout is not None
    assert held.stdout.readline() == "first\n"
    assert held.poll() is None
    (tmp_path / "second").unlink()
    assert held.communicate(timeout=20)[0] == "second\n"
