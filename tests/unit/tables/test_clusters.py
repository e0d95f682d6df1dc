"""Names become the codes of their clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from penstock.core.clock import Clock
from penstock.tables.clusters import Cluster, Clusters
from penstock.tables.creation import create_tables
from penstock.tables.lookup_tables import cfg_cluster
from penstock.tables.target import Target

ROWS = [Cluster("ho", "x"), Cluster("holdem", "hd"), Cluster("war", "longwar"), Cluster("", "e"), Cluster("nn", None)]


@pytest.mark.parametrize(
    ("name", "fixed", "original"),
    [
        (None, None, None),
        ("eat1-holdem.grid", "holdem", "ho"),
        ("my-longwar", "war", "war"),
        ("my-hd", "holdem", "holdem"),
        ("hd-x", "holdem", "ho"),  # short names count only where no code is found; the longest wins
        ("elsewhere", "elsewhere", "elsewhere"),  # a row without a code gives none
        ("", "", ""),
    ],
)
def test_a_code_wins_over_a_short_name_and_the_longest_over_the_first(
    name: str | None, fixed: str | None, original: str | None
) -> None:
    for _ in range(2):  # the second time from memory
        assert Clusters(ROWS).code_of(name) == fixed
        assert Clusters(ROWS, values="v0.2.1").code_of(name) == original


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(f"sqlite:///{tmp_path}/wh.db")
    yield made
    made.close()


def test_the_table_is_read_again_after_a_while(target: Target) -> None:
    clock = [0.0]
    clusters = Clusters(every=60, surroundings=Clock(monotonic=lambda: clock[0]))
    with target.transaction() as connection:
        clusters.refresh(connection)  # there is no table yet
    assert clusters.code_of("eat1-holdem") == "eat1-holdem"
    create_tables(target, ["cfg_cluster"])
    with target.transaction() as connection:
        same = {"cluster_type": "h", "deployment_tier_code": "p"}
        connection.execute(
            sa.insert(cfg_cluster),
            [
                {"cluster_id": 1, "cluster_code": "holdem", "cluster_short_name": "h1"} | same,
                {"cluster_id": 2, "cluster_code": "[all]", "cluster_short_name": "eat"} | same,
            ],
        )
        clusters.refresh(connection)
        assert clusters.code_of("eat1-holdem") == "eat1-holdem", "not due yet"
        clock[0] = 60.0
        clusters.refresh(connection)
    assert clusters.code_of("eat1-holdem") == "holdem"
    assert clusters.code_of("eat1") == "eat1"
