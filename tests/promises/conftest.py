"""One instance in the test process for all promises that need no process of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.scene import SESSION_S
from tests.support.engine import Engine
from tests.support.postgres import postgres_server

__all__ = ["engine", "postgres_server"]


@pytest.fixture(scope="package")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    environ = {"PENSTOCK_ENGINE_SESSION_TIMEOUT": f"{SESSION_S:g}s", "PENSTOCK_ENGINE_HOT_LANES": "1"}
    with Engine(tmp_path_factory.mktemp("promises"), environ=environ) as running:
        yield running
