"""Worker processes of lanes on local masters: who they are, and ending them."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from penstock.core.clock import SYSTEM, Clock

_GONE_WITHIN = 5.0
"""Seconds to wait for a killed process; one in an uninterruptible system call takes longer than a moment."""
_LOOK_EVERY = 0.01
_PARENT, _STARTED = 1, 19
"""Fields of /proc/<pid>/stat, counted from the state, which is the first one behind the name."""
_LEVELS = 8
"""Driver, JVM, Python daemon, worker: no chain of parents is longer than this."""
_HAS_PROC = Path("/proc/self/stat").exists()
"""False on systems where a process id is all there is to know."""


@dataclass(slots=True, frozen=True)
class WorkerProcess:
    """A process id together with the time at which the process began: the pair is never used twice."""

    pid: int
    started: int
    """Clock ticks since the machine's start."""


def identify(pid: int, lane: str) -> WorkerProcess | None:
    """The process of this id if it is a worker of this lane, started by this driver; else None."""
    if not _HAS_PROC:
        return WorkerProcess(pid, 0)
    fields = _stat(pid)
    if fields is None or not _descends_from_us(pid) or not _serves(pid, lane):
        return None
    return WorkerProcess(pid, int(fields[_STARTED]))


def is_alive(process: WorkerProcess) -> bool:
    if not _HAS_PROC:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, 0)
            return True
        return False
    fields = _stat(process.pid)
    return fields is not None and int(fields[_STARTED]) == process.started


def end(process: WorkerProcess, clock: Clock = SYSTEM) -> bool:
    """Kill the process and wait until it is gone; False when it is still there after some seconds."""
    # The pid alone says nothing: another process may have it by now.
    if not is_alive(process):
        return True
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, signal.SIGKILL)
    until = clock.monotonic() + _GONE_WITHIN
    while is_alive(process):
        if clock.monotonic() >= until:
            return False
        clock.sleep(_LOOK_EVERY)
    return True


def _stat(pid: int) -> list[str] | None:
    """Fields from the state on; None: there is no such process, or it is dead and only waits to be collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if not fields or fields[0] in "ZX" else fields


def _descends_from_us(pid: int) -> bool:
    for _ in range(_LEVELS):
        fields = _stat(pid)
        if fields is None:
            return False
        pid = int(fields[_PARENT])
        if pid == os.getpid():
            return True
    return False


def _serves(pid: int, lane: str) -> bool:
    """Whether the process has the lane's environment, which its daemon was started with."""
    try:
        return f"PENSTOCK_LANE={lane}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
