"""Facts about the machine and the versions under test: its kind, never its name."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from tests.support.fetch import KAFKA_VERSION, java

ROOT = Path(__file__).resolve().parents[1]


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return (done.stdout + done.stderr).strip()


def facts() -> dict[str, Any]:
    """Everything a reader needs to judge the figures."""
    return {
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "clean": not _output("git", "status", "--porcelain", "--", "src", "bench/engine", "bench/datahub"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "java": _output(java(), "-version").splitlines()[0].split('"')[1],
        "spark": version("pyspark"),
        "kafka": KAFKA_VERSION,
        "confluent_kafka": version("confluent-kafka"),
    }
