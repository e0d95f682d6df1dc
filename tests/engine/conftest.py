"""One instance per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.engine import Engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine")) as running:
        yield running
