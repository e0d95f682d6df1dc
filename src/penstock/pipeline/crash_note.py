"""A note for the driver that this process began an event, which arrives only if the process dies.

Without a shared disk (clusters) there is no in-flight log. But Spark's executor adds a file to its error when a Python
worker dies, by name of the process: the file in which Python writes down where it crashed. A line of ours in it proves
that the process was at work on events when it died, and did not fail to start, to import or to find a disk.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

EVENT_BEGUN = "penstock: an event was begun"
"""The line, by which the driver knows it."""


def note_event_begun() -> None:
    """Leave the line for this task, once; no effect where there is no such file. Called before each batch."""
    folder = os.environ.get("PYTHON_FAULTHANDLER_DIR")
    if folder:
        file = Path(folder, str(os.getpid()))
        with contextlib.suppress(OSError):
            # Spark empties the file when a task begins.
            if file.stat().st_size == 0:
                file.write_text(f"{EVENT_BEGUN}\n")
