"""The PostgreSQL server for these suites, and a store on each database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store import Store
from tests.support.postgres import postgres_server

__all__ = ["postgres_server"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def work_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """For tests that are functions."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/store.db"
    else:
        url = request.getfixturevalue("postgres_server").create_database()
    with Store.open(url) as opened:
        yield opened
