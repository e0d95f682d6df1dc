"""The fault matrix runs on demand (`make test-faults`, or when this folder is named); its table is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.outcome import ROWS, Row, write
from tests.support.engine import Engine
from tests.support.kafka import KafkaCluster


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test` proves one fault per promise; the matrix takes a quarter of an hour and three brokers."""
    wanted = "faults" in str(config.getoption("markexpr")) or any("faults" in str(arg) for arg in config.args)
    return True if collection_path.name.startswith("test_matrix") and not wanted else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    if ROWS and not session.config.getoption("keyword"):
        write(ROWS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        terminalreporter.section("faults")
        for row in ROWS:
            terminalreporter.line(str(row))


@pytest.fixture(scope="session")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers; each topic has a copy on all of them."""
    with KafkaCluster(3) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One instance that survives everything it is fed."""
    with Engine(tmp_path_factory.mktemp("poison")) as running:
        yield running


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Iterator[Row]:
    """This test's line in the table."""
    made = Row(request.node.name.removeprefix("test_").replace("_", " "))
    ROWS.append(made)
    began = time.monotonic()
    yield made
    made.seconds = round(time.monotonic() - began, 1)
