"""Which instance owns which partition, and how far it is, for status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.reading import read_as
from penstock.store.tables import partition_owners


class OwnedPartition(NamedTuple):
    """What an owner says of its partition."""

    topic: str
    partition: int
    committed: int | None
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition of a pipeline with its owner."""

    pipeline: str
    topic: str
    partition: int
    instance: str
    committed: int | None
    end: int | None
    updated_at: int


class Partitions:
    """The repository of owned partitions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self, pipeline: str, instance: str, rows: Iterable[OwnedPartition | tuple[str, int, int | None, int | None]]
    ) -> None:
        """All partitions the instance owns of the pipeline now; those it had before and has no more are dropped."""
        self.put_all(instance, {pipeline: rows})

    def put_all(
        self, instance: str, owned: Mapping[str, Iterable[OwnedPartition | tuple[str, int, int | None, int | None]]]
    ) -> None:
        """The same for many pipelines, in one transaction."""
        if not owned:
            return
        c = partition_owners.c
        with self._database.write() as connection:
            now = self._database.now(connection)
            connection.execute(sa.delete(partition_owners).where(c.instance == instance, c.pipeline.in_(list(owned))))
            values = [
                {"pipeline": pipeline, "instance": instance, "updated_at": now} | OwnedPartition(*row)._asdict()
                for pipeline, rows in owned.items()
                for row in rows
            ]
            if values:
                connection.execute(sa.insert(partition_owners), values)

    def all(self, pipeline: str | None = None) -> list[PartitionRow]:
        """By pipeline, topic and partition; of two owners (one hands over) the one heard of last comes first."""
        c = partition_owners.c
        query = sa.select(partition_owners).order_by(c.pipeline, c.topic, c.partition, c.updated_at.desc())
        if pipeline is not None:
            query = query.where(c.pipeline == pipeline)
        with self._database.read() as connection:
            return read_as(PartitionRow, connection, query)
