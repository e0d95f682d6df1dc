"""The running instances, known by their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.tables import instances, partition_owners, pipeline_states
from penstock.store.upsert import upsert


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """One running `penstock run`."""

    id: str
    host: str
    pid: int
    version: str
    started_at: int
    """Epoch milliseconds."""
    http_address: str | None = None
    heartbeat_at: int = 0
    """Epoch milliseconds; set by the store."""


class Instances:
    """The repository of instances."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def heartbeat(self, instance: InstanceRow) -> None:
        """Say that the instance lives."""
        with self._database.write() as connection:
            values = asdict(instance) | {"heartbeat_at": self._database.now(connection)}
            connection.execute(upsert(self._database, instances), values)

    def alive(self, within_seconds: float) -> list[InstanceRow]:
        """Those heard of lately, the oldest first."""
        with self._database.read() as connection:
            since = self._database.now(connection) - int(within_seconds * 1000)
            query = sa.select(instances).where(instances.c.heartbeat_at >= since)
            found = connection.execute(query.order_by(instances.c.started_at, instances.c.id))
            return [InstanceRow(**row) for row in found.mappings()]

    def expire(self, older_than: float) -> list[str]:
        """Forget instances not heard of for so many seconds, and what they said; their ids are returned."""
        with self._database.write() as connection:
            before = self._database.now(connection) - int(older_than * 1000)
            gone = list(connection.scalars(sa.select(instances.c.id).where(instances.c.heartbeat_at < before)))
            _forget(connection, gone)
        return gone

    def remove(self, instance_id: str) -> None:
        """Forget an instance that has stopped: its heartbeat, states and partitions."""
        with self._database.write() as connection:
            _forget(connection, [instance_id])


def _forget(connection: sa.Connection, ids: Sequence[str]) -> None:
    if ids:
        connection.execute(sa.delete(partition_owners).where(partition_owners.c.instance.in_(ids)))
        connection.execute(sa.delete(pipeline_states).where(pipeline_states.c.instance.in_(ids)))
        connection.execute(sa.delete(instances).where(instances.c.id.in_(ids)))
