"""How an instance becomes a part of a Spark cluster: its secret, the product's code, and the executors it is given."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Terminal

_EXECUTORS_WITHIN = 60.0
"""Seconds a cluster has to give the first executor."""
_EXECUTORS_CALM = 1.0
"""Executors come one by one; their number counts when it has not changed for this many seconds."""


class SparkStartError(PenstockError, Terminal):
    """Spark could not be started."""

    code = "spark-start"


def require_secret(master: str, conf: Mapping[str, str]) -> None:
    """YARN and Kubernetes make a secret for each application; a standalone cluster has one that all share."""
    if master.startswith("spark://") and "spark.authenticate.secret" not in conf:
        raise SparkStartError(
            "a Spark standalone master needs the cluster's secret",
            received="no spark.authenticate.secret",
            hint="set spark.conf 'spark.authenticate.secret' to the cluster's value, "
            "or 'spark.authenticate' to false if it has none",
        )


def join(context: Any, master: str, folder: Path, clock: Clock = SYSTEM) -> int:
    """Make the cluster able to run windows; the number that it can run side by side."""
    try:
        context.addPyFile(str(_zipped(folder)))
        return _await_executors(context, master, clock)
    except SparkStartError:
        raise
    except Exception as error:
        # Spark tries to register for a minute, then it stops the context and the next call fails.
        raise SparkStartError(
            "the Spark master did not take this instance in",
            received=master,
            hint="is the address right, is the master running, and is spark.authenticate.secret the cluster's?",
        ) from error


def _zipped(folder: Path) -> Path:
    """The product's own code, for the executors; its dependencies must be installed there."""
    package = Path(__file__).resolve().parents[2]
    target = folder / "penstock.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path("penstock") / file.relative_to(package))
    return target


def _await_executors(context: Any, master: str, clock: Clock) -> int:
    jvm = context._jsc.sc()  # noqa: SLF001 - pyspark has no public count of executors
    began = changed = clock.monotonic()
    known = 0
    while known == 0 or clock.monotonic() < changed + _EXECUTORS_CALM:
        # The driver counts as one.
        executors = jvm.getExecutorMemoryStatus().size() - 1
        if executors != known:
            known, changed = executors, clock.monotonic()
        elif known == 0 and clock.monotonic() > began + _EXECUTORS_WITHIN:
            raise SparkStartError(
                f"the Spark cluster gave no executor within {_EXECUTORS_WITHIN:g} seconds",
                received=master,
                hint="it has no free cores or too little memory (spark.executor.memory), "
                "or its executors cannot reach this machine (spark.driver.host)",
            )
        clock.sleep(0.1)
    return int(context.defaultParallelism)
