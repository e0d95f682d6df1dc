"""Who replays: a name that tells, on the same machine, whether its process still lives."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from penstock.store import Store

_PREFIX = "replay"


def own_name() -> str:
    """For claims and histories: `replay:host:namespace:pid:start:random`."""
    return ":".join((_PREFIX, *_machine(), str(os.getpid()), _started(os.getpid()) or "", uuid.uuid4().hex[:6]))


def release_orphans(store: Store, by: str) -> int:
    """Letters that replays of this machine held when they were killed are free at once; how many. Those of other
    machines are when their claims run out."""
    released = 0
    for claimant in store.dead_letters.claimants():
        if is_dead(claimant):
            released += len(store.dead_letters.release(by=by, reason="its replay was killed", claimed_by=claimant))
    return released


def is_dead(claimant: str) -> bool:
    """Whether its process is known to be gone; of those of other machines nothing is known."""
    parts = claimant.split(":")
    if len(parts) != 6 or parts[0] != _PREFIX or (parts[1], parts[2]) != _machine() or not parts[2]:
        return False
    return _started(int(parts[3])) != parts[4]


def _machine() -> tuple[str, str]:
    """Host and process namespace: process ids mean something only within one."""
    try:
        namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        namespace = ""
    return os.uname().nodename.replace(":", "_"), namespace


def _started(pid: int) -> str | None:
    """When the process was started, in the kernel's ticks: another one may have got its id."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold anything.
    return text.rpartition(")")[2].split()[19]
