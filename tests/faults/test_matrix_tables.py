"""Faults around a table's transaction: its content equals the topic's, whatever dies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.faults.outcome import Row
from tests.faults.scene import fed
from tests.faults.table_scene import TableScene
from tests.support.freezing import frozen
from tests.support.kafka import KafkaCluster
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.faults


Server = PostgresServer | MariaDbServer
_FROZEN_S = 45.0
"""Longer than an event may take: that the database does not answer is not the event's fault."""


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    kind: Literal["postgresql", "mariadb"] = request.param
    with PostgresServer() if kind == "postgresql" else MariaDbServer() as running:
        yield running


def _named(server: Server, what: str) -> str:
    """Topics of the cluster outlive each test."""
    return f"table-{type(server).__name__.removesuffix('Server').lower()}-{what}"


def _keep(row: Row, scene: TableScene) -> None:
    row.verdict, row.produced, row.dead_letters = "kept", len(scene.feed.produced), len(scene.letters())


@pytest.mark.parametrize("place", ["before-rows", "before-transaction-commit", "after-transaction-commit"])
def test_a_worker_is_killed_at(place: str, cluster: KafkaCluster, server: Server, tmp_path: Path, row: Row) -> None:
    with TableScene(cluster, tmp_path, _named(server, place), server.create_database()) as scene:
        with fed(scene):
            scene.start()
            scene.more(50)
            scene.kill_worker(place)
            scene.more(50)
        scene.stop_all()
        scene.assert_equal()
        _keep(row, scene)


@pytest.mark.parametrize("how", ["restart", "kill", "freeze"])
def test_the_database_is_gone_and_back_by(
    how: str, cluster: KafkaCluster, server: Server, tmp_path: Path, row: Row
) -> None:
    with TableScene(cluster, tmp_path, _named(server, f"database-{how}"), server.create_database()) as scene:
        with fed(scene):
            scene.start()
            scene.more(50)
            if how == "freeze":
                with frozen(server.pid):
                    time.sleep(_FROZEN_S)  # the fault itself
            elif how == "kill":
                server.kill()
                server.start()
            else:
                server.restart()
            scene.more(50)
        scene.stop_all()
        scene.assert_equal()
        _keep(row, scene)


def test_a_former_owner_wakes(cluster: KafkaCluster, server: Server, tmp_path: Path, row: Row) -> None:
    with (
        PostgresServer() as stores,
        TableScene(cluster, tmp_path, _named(server, "former-owner"), server.create_database()) as scene,
    ):
        # Frozen within a write, the former owner would keep the lock of a SQLite store.
        scene.env["PENSTOCK_STORE_URL"] = stores.create_database()
        with fed(scene):
            former = scene.start()
            scene.more(50)
            former.pause()
            scene.start()
            scene.more(100)
            former.unpause()
            scene.more(50)
        scene.stop_all()
        scene.assert_equal()
        _keep(row, scene)


def test_the_group_has_lost_its_offsets(cluster: KafkaCluster, server: Server, tmp_path: Path, row: Row) -> None:
    with TableScene(cluster, tmp_path, _named(server, "no-offsets"), server.create_database()) as scene:
        with fed(scene):
            scene.start()
            scene.more(50)
        scene.stop_all()
        cluster.delete_group(scene.name)
        scene.feed.send(100)
        scene.feed.end()
        scene.start()
        scene.caught_up()
        scene.stop_all_living()
        scene.assert_equal()
        _keep(row, scene)
