"""Each lane's process imports the worker when it starts: what it does not need costs every start."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("alembic", "fastapi", "psycopg", "requests", "rich", "sqlalchemy", "structlog", "typer", "urllib.request")


def test_the_worker_loads_nothing_that_only_the_driver_or_a_table_needs() -> None:
    script = f"import sys, penstock.worker.window; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
