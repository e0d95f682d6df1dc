"""Processes that stand still, as those of a machine that is paused do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP a process and all its children for a while."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in family:
            process.resume()
