"""Failpoints: named places where a test may kill, stop, break or hold this process, switched on by files.

When PENSTOCK_FAILPOINTS names a folder, the file `<folder>/<name>` says what happens at that place: `kill` and `stop`
(the signal a kernel would send), `error`, or `wait` until the file is gone. The first three happen once: the file is
removed first, so that the process that comes after runs through. While a process waits, `<name>.held` holds its id.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from penstock.core.clock import SYSTEM
from penstock.core.errors import ConfigError, Unavailable

_FOLDER: Final = SYSTEM.environ.get("PENSTOCK_FAILPOINTS") or None
_HOLD_S: Final = 0.01
"""How often a held process looks whether it may go on."""


class FailpointError(Unavailable):
    """A test asked for this error."""

    code = "failpoint"


def reach(name: str) -> None:
    """The process has come to the place called `name`."""
    if _FOLDER is not None:
        _obey(Path(_FOLDER) / name)


def _obey(file: Path) -> None:
    try:
        wanted = file.read_text().strip()
    except FileNotFoundError:
        return
    if wanted == "wait":
        held = file.with_name(f"{file.name}.held")
        held.write_text(str(os.getpid()))
        while file.exists():
            time.sleep(_HOLD_S)
        held.unlink(missing_ok=True)
        return
    file.unlink(missing_ok=True)
    if wanted == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif wanted == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif wanted == "error":
        raise FailpointError(f"failpoint {file.name}")
    else:
        raise ConfigError(f"failpoint {file.name} cannot be obeyed", received=wanted, allowed="kill, stop, error, wait")
