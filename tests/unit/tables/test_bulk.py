"""Writing many rows: what is left of equal keys, and rows of one table that have other columns each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.tables.bulk import bulk_of
from penstock.tables.shape import Mode, Row, Shape
from penstock.tables.target import Target
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    url = f"sqlite:///{tmp_path / 'target.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create_database()
    target = Target(url)
    with target.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b INTEGER, at INTEGER)"))
    yield target
    target.close()


def write(target: Target, mode: Mode, names: tuple[str, ...], *rows: Row, **more: Any) -> None:
    table = target.inspect("t")
    assert table is not None
    keys = () if mode == "append" else ("k",)
    bulk = bulk_of(target, Shape(table, names, mode, keys, **more))
    with target.transaction() as connection:
        bulk.write(connection, rows)


def rows(target: Target) -> list[Row]:
    with target.transaction() as connection:
        return [tuple(row) for row in connection.execute(sa.text("SELECT k, a, b, at FROM t ORDER BY k"))]


@pytest.mark.parametrize("mode", ["upsert", "replace"])
def test_rows_may_have_other_columns_within_one_connection(target: Target, mode: Mode) -> None:
    write(target, mode, ("k", "a"), (1, 10), (2, 20), (1, 11))
    write(target, mode, ("k", "b", "at"), (3, 30, 5))
    write(target, mode, ("k", "a"), (2, 21))

    assert rows(target) == [(1, 11, None, None), (2, 21, None, None), (3, None, 30, 5)]


def test_latest_compares_with_what_is_there_and_within_a_chunk(target: Target) -> None:
    names = ("k", "a", "at")
    write(target, "latest", names, (1, 10, 5), (1, 9, 4), (2, 20, 5), newest="at")
    write(target, "latest", names, (1, 11, 3), (2, 21, 6), (3, 30, None), newest="at")
    write(target, "latest", names, (3, 31, 1), newest="at")

    assert rows(target) == [(1, 10, None, 5), (2, 21, None, 6), (3, 31, None, 1)]
