"""Spark's Python daemon, made quick: modules are loaded before it forks, and from folders instead of Spark's zip files.

Spark puts its own Python code on the path as zip files without byte code, and a jar of its own with thousands of
classes, and forgets their directories before every task: compiling them slows the start of a lane, reading the
directories again slows every window. On a local master the installed package holds the same code.
"""

from __future__ import annotations

import os
import runpy
import sys

_ZIPS = ("pyspark.zip", "-src.zip")


def _is_sparks(entry: str) -> bool:
    name = os.path.basename(entry)  # noqa: PTH119 - before anything is imported
    return entry.endswith(_ZIPS) or (name.startswith("spark-core_") and name.endswith(".jar"))


def _without_zips(path: str) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if not _is_sparks(entry))


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not _is_sparks(entry)]
    os.environ["PYTHONPATH"] = _without_zips(os.environ.get("PYTHONPATH", ""))

    import penstock.worker.window  # noqa: F401 - loaded for the workers to come
    from penstock.datahub.classes import preload

    preload()
    runpy.run_module("pyspark.daemon", run_name="__main__")
