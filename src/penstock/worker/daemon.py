"""Spark's Python daemon, made quick: modules are loaded before it forks, and from folders instead of Spark's zip files.

Spark puts its own Python code on the path as zip files without byte code, and a jar of its own with thousands of
classes, and forgets their directories before every task: compiling them slows the start of a lane, reading the
directories again slows every window. On a local master the installed package holds the same code.
"""

from __future__ import annotations

import gc
import os
import runpy
import sys
import time

_full_collection = gc.collect
_collected_at = 0.0
_COLLECT_EVERY = 30.0
_ZIPS = ("pyspark.zip", "-src.zip")
_DAEMON = os.path.join("pyspark", "daemon.py")  # noqa: PTH118 - before anything is imported


def _is_sparks(entry: str) -> bool:
    name = os.path.basename(entry)  # noqa: PTH119 - before anything is imported
    return entry.endswith(_ZIPS) or (name.startswith("spark-core_") and name.endswith(".jar"))


def _without_zips(path: str) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if not _is_sparks(entry))


def _collect(generation: int = 2) -> int:
    """Collect garbage, for Spark's daemon now and then only: it asks for everything after every task, while units go on
    beside it and hold tens of thousands of decoded events, none of which is garbage."""
    global _collected_at  # noqa: PLW0603 - of this process
    if sys._getframe(1).f_code.co_filename.endswith(_DAEMON):  # noqa: SLF001 - who asks is what counts
        if time.monotonic() < _collected_at + _COLLECT_EVERY:
            return 0
        _collected_at = time.monotonic()
    return _full_collection(generation)


if __name__ == "__main__":
    gc.collect = _collect
    sys.path[:] = [entry for entry in sys.path if not _is_sparks(entry)]
    os.environ["PYTHONPATH"] = _without_zips(os.environ.get("PYTHONPATH", ""))

    import penstock.worker.window  # noqa: F401 - loaded for the workers to come
    from penstock.datahub.classes import preload

    preload()
    runpy.run_module("pyspark.daemon", run_name="__main__")
