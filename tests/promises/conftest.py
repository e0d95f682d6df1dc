"""One instance in the test process for all promises that need no process of their own; its store is a PostgreSQL that
may be stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.scene import SESSION_S
from tests.support.engine import Engine
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="package")
def engine(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    environ = {
        "PENSTOCK_STORE_URL": postgres.create_database(),
        "PENSTOCK_ENGINE_SESSION_TIMEOUT": f"{SESSION_S:g}s",
        "PENSTOCK_ENGINE_HOT_LANES": "1",
    }
    with Engine(tmp_path_factory.mktemp("promises"), environ=environ) as running:
        yield running
