"""Processes that tests start: each is ended with the test run, also when the run itself is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

# A process that outlives the test run by a moment: the end of its input means that the run is gone, however it went.
_REAPER = """
import os, shutil, signal, sys
kept = set()
for line in sys.stdin:
    verb, what = line.rstrip("\\n").split(" ", 1)
    (kept.add if verb == "keep" else kept.discard)(what)
for what in kept:
    try:
        os.killpg(int(what), signal.SIGKILL) if what.isdigit() else shutil.rmtree(what, ignore_errors=True)
    except OSError:
        pass
"""


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class Children:
    """All processes and temporary folders of this test run that are still there."""

    def __init__(self) -> None:
        self._reaper: subprocess.Popen[str] | None = None
        self._alive: dict[int, subprocess.Popen[Any]] = {}
        self._names: dict[int, str] = {}

    def spawn(
        self,
        command: Sequence[str],
        *,
        name: str,
        output: IO[Any] | int,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: IO[Any] | int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own; `output` takes stderr, and stdout too unless that is given apart."""
        child: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output if stdout is None else stdout,
            stderr=output,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self._alive[child.pid] = child
        self._names[child.pid] = name
        self._tell("keep", str(child.pid))
        return child

    def ended(self, child: subprocess.Popen[Any]) -> None:
        """Take a process that was waited for off the list, and end what it left in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        if self._alive.pop(child.pid, None):
            self._tell("drop", str(child.pid))

    def folder(self, path: Path) -> Path:
        """Remove this folder with the run, unless `remove` did so before."""
        self._tell("keep", str(path))
        return path

    def remove(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        self._tell("drop", str(path))

    def left(self) -> list[str]:
        """Names of the processes that still run."""
        return [f"{self._names[pid]} (pid {pid})" for pid, child in self._alive.items() if child.poll() is None]

    def _tell(self, verb: str, what: str) -> None:
        if self._reaper is None:
            self._reaper = subprocess.Popen(
                [sys.executable, "-c", _REAPER], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
        assert self._reaper.stdin
        self._reaper.stdin.write(f"{verb} {what}\n")
        self._reaper.stdin.flush()

    def close(self) -> None:
        """End the reaper, and with it everything that was forgotten."""
        if self._reaper and self._reaper.stdin:
            self._reaper.stdin.close()
            self._reaper.wait(timeout=10)
            self._reaper = None
        for child in self._alive.values():
            child.wait(timeout=10)
        self._alive.clear()


CHILDREN = Children()
