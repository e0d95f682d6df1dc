"""The function Spark runs: one window in, its outcome out."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import TaskContext

from penstock.core.memory import few_arenas, small_client_stacks
from penstock.worker.lane_process import LaneProcess
from penstock.worker.protocol import REPEATED, WindowRequest, packed

FILE_MARK = b"file:"
"""Before the name of a file that holds a window's request; a pickle never begins so."""
_lane: LaneProcess | None = None


def run_window(requests: Iterable[bytes]) -> Iterator[bytes]:
    """Run each request of this task.

    The input is drained, or Spark would destroy the worker after the task. For a process with a hung thread that is
    wanted, and on a cluster it is the only way to end it.
    """
    global _lane  # noqa: PLW0603 - the process is the lane: consumers, actions and threads live in it from window to window
    attempt = TaskContext.get()
    if attempt is not None and attempt.attemptNumber() > 0:
        # What the first attempt did is unknown.
        raise RuntimeError(f"{REPEATED}; Penstock runs nothing twice by itself (spark.task.maxFailures must be 1)")
    if _lane is None:
        _connect_stdout()
        _limit_memory()
        small_client_stacks()
        few_arenas()
        _lane = LaneProcess()
    for request in requests:
        work: WindowRequest = pickle.loads(_content(request))  # noqa: S301 - from our own driver
        outcome = _lane.run(work)
        yield packed(outcome)
        if work.retiring or (outcome.tainted and not work.detach):
            return


def _content(request: bytes) -> bytes:
    """The request itself, or what is in the file that it names; the file holds secrets and does not outlive this."""
    if not request.startswith(FILE_MARK):
        return request
    file = Path(os.fsdecode(request.removeprefix(FILE_MARK)))
    content = file.read_bytes()
    file.unlink()
    return content


def _limit_memory() -> None:
    """Let one event that wants all the memory fail with an error, before the system picks a process to kill."""
    limit = int(os.environ.get("PENSTOCK_MEMORY", "0"))
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")


def _connect_stdout() -> None:
    """Let `print` of actions reach the standard output of `penstock run`; Spark would send it to its log."""
    target = os.environ.get("PENSTOCK_STDOUT")
    if target:
        with contextlib.suppress(OSError):
            sys.stdout = open(target, "a", buffering=1, encoding="utf-8")  # noqa: PTH123, SIM115 - stays open for the process's life
