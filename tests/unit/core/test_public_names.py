"""What `import penstock` promises, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import penstock


def test_public_names_are_pinned() -> None:
    assert penstock.__all__ == [
        "Action",
        "BatchAction",
        "Decoder",
        "Event",
        "Filter",
        "PenstockError",
        "PipelineContext",
        "Processor",
        "Terminal",
        "Transform",
        "Transient",
        "Unavailable",
        "__version__",
    ]
    assert all(getattr(penstock, name) for name in penstock.__all__)
    assert set(penstock.__all__) <= set(dir(penstock))


def test_importing_loads_neither_spark_nor_the_kafka_client() -> None:
    script = (
        "import sys, penstock\n"
        "from penstock.act.registry import actions\n"
        "from penstock.filter.registry import filters\n"
        "[getattr(penstock, name) for name in penstock.__all__]\n"
        "print([name for name in ('pyspark', 'confluent_kafka', 'aiohttp', 'sqlalchemy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
