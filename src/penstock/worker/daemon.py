"""Spark's Python daemon, made quick: modules are loaded before it forks, and from folders instead of Spark's zip files.

Spark puts its own Python code on the path as zip files without byte code and forgets their directory before every task:
compiling them slows the start of a lane, reading the directory again slows every window. On a local master
the installed package holds the same code.
"""

from __future__ import annotations

import os
import runpy
import sys

_ZIPS = ("pyspark.zip", "-src.zip")


def _without_zips(path: str) -> str:
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if not entry.endswith(_ZIPS))


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(_ZIPS)]
    os.environ["PYTHONPATH"] = _without_zips(os.environ.get("PYTHONPATH", ""))

    import penstock.worker.window  # noqa: F401 - loaded for the workers to come
    from penstock.datahub.classes import preload

    preload()
    runpy.run_module("pyspark.daemon", run_name="__main__")
