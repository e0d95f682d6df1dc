"""Put on the path of an instance: its wall clock is off by what the file that PENSTOCK_TEST_CLOCK names says.

Neither a time namespace nor libfaketime is at hand without privileges. This shifts what Python's `time.time` and
`time.time_ns` say in the driver and in the workers; the JVM, the Kafka client and the monotonic clock keep theirs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_file = os.environ.get("PENSTOCK_TEST_CLOCK")
_true_time, _true_time_ns = time.time, time.time_ns


def _offset() -> float:
    try:
        return float(Path(_file or "").read_text())
    except (OSError, ValueError):
        return 0.0


if _file:
    time.time = lambda: _true_time() + _offset()
    time.time_ns = lambda: _true_time_ns() + int(_offset() * 1e9)
