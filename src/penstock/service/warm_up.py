"""Begins to start Spark while the rest is still being imported and read: two cores can do both at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from penstock.config.settings import Settings, carpool_lanes
from penstock.engine.spark.context import Spark
from penstock.service.logs import scrubbed


def begin_spark(settings: Settings, *, quiet_output: bool = False, lanes: Sequence[str] | None = None) -> Spark:
    """Spark, on its way, with these lanes (default: the shared ones). If nothing comes of it, it ends with the process.

    `quiet_output` keeps what actions print off standard output.
    """
    output = _path_of(sys.stderr if quiet_output else sys.stdout)
    spark = Spark(
        master=settings.spark.master,
        conf=settings.spark.conf,
        home=settings.home,
        driver_output=output,
        worker_memory=settings.engine.worker_memory,
        scrub=scrubbed,
    )
    shared = [f"shared-{index}" for index in range(carpool_lanes(settings.engine))]
    spark.begin(lanes=shared if lanes is None else lanes)
    return spark


def _path_of(stream: TextIO) -> str | None:
    """Where a worker process can reach this stream."""
    try:
        return f"/proc/{os.getpid()}/fd/{stream.fileno()}"
    except (OSError, ValueError):
        return None
