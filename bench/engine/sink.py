"""The actions that benchmarks run: they note what they see and do nothing else.

Workers load this as a plain file: it imports the standard library only. `BENCH_SINK` names the folder to write to.
"""

from __future__ import annotations

import os
import random
import struct
import threading
import time
from pathlib import Path
from typing import Any

PAIR = struct.Struct("<qqqq")
"""Produced, appended by the broker (whole milliseconds) and acted, in ns since the epoch; and the event's number."""
SAMPLE = struct.Struct("<qq")
"""Time (ns since the epoch) and the number of events seen by then."""

_clock = time.time_ns
_pairs: list[tuple[int, int, int, int]] = []
note = _pairs.append
"""Keeps four whole numbers, as `PAIR` writes them."""
_seen = 0


def timed(event: Any) -> None:
    """Note when the event was produced and that it is acted on now."""
    now = _clock()
    value = event.value
    note((value["t"], event.timestamp * 1_000_000, now, value["n"]))


def counted(event: Any) -> None:  # noqa: ARG001 - a no-op action
    """Count the event."""
    # Safe without a lock: CPython switches threads at calls and loops, not inside this statement.
    global _seen  # noqa: PLW0603 - an attribute or a closure would cost more per event
    _seen += 1


def worked(event: Any) -> None:
    """Work for up to five milliseconds, then note the event."""
    time.sleep(random.random() * 0.005)
    timed(event)


def poisoned(event: Any) -> None:
    """Fail for one event in a hundred, count the others."""
    if event.value["n"] % 100 == 0:
        raise ValueError("one in a hundred")
    counted(event)


def _write_out(folder: Path) -> None:
    name = f"{os.getpid()}-{_clock()}"
    pairs = folder / f"{name}.pairs"
    samples = folder / f"{name}.samples"
    last = -1
    tick = 0
    while True:
        time.sleep(0.025)
        tick += 1
        if _seen and _seen != last:
            last = _seen
            with samples.open("ab") as file:
                file.write(SAMPLE.pack(_clock(), last))
        if _pairs and tick % 8 == 0:
            count = len(_pairs)
            with pairs.open("ab") as file:
                file.write(b"".join(PAIR.pack(*pair) for pair in _pairs[:count]))
            del _pairs[:count]


def _start() -> None:
    folder = os.environ.get("BENCH_SINK")
    if folder:
        threading.Thread(target=_write_out, args=(Path(folder),), daemon=True, name="bench-sink").start()


_start()
# A worker may be forked from a process that loaded this file; threads do not survive a fork.
os.register_at_fork(after_in_child=_start)
