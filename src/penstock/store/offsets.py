"""A mirror of what consumer groups committed last, for the day a broker forgets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.tables import mirrored_offsets
from penstock.store.upsert import insert, upsert


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRow:
    """One partition's commit."""

    group: str
    topic: str
    topic_id: str
    partition: int
    offset: int
    metadata: str = ""


class Offsets:
    """The repository of mirrored offsets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def mirror(self, rows: Sequence[MirrorRow], *, force: bool = False) -> None:
        """Remember commits, in one transaction.

        I2: an offset goes forward only, so that a late writer undoes nothing; a topic that was made anew begins anew;
        `force` is for resets.
        """
        if not rows:
            return
        latest = {(row.group, row.topic, row.partition): row for row in rows}
        statement = upsert(self._database, mirrored_offsets) if force else self._forward()
        with self._database.write() as connection:
            now = self._database.now(connection)
            values = [_values(latest[at]) | {"mirrored_at": now} for at in sorted(latest)]
            connection.execute(statement, values)

    def mirrored(self, group: str) -> dict[tuple[str, int], MirrorRow]:
        """The group's last commits by topic and partition."""
        query = sa.select(mirrored_offsets).where(mirrored_offsets.c.consumer_group == group)
        with self._database.read() as connection:
            found = connection.execute(query).mappings().all()
        return {(row["topic"], row["partition"]): _row(row) for row in found}

    def _forward(self) -> sa.Insert:
        statement = insert(self._database, mirrored_offsets)
        given, c = statement.excluded, mirrored_offsets.c
        changes = {name: given[name] for name in ("topic_id", "offset", "metadata", "mirrored_at")}
        return statement.on_conflict_do_update(
            index_elements=[c.consumer_group, c.topic, c.partition],
            set_=changes,
            where=(c.topic_id != given.topic_id) | (c.offset <= given.offset),
        )


def _values(row: MirrorRow) -> dict[str, object]:
    values = asdict(row)
    values["consumer_group"] = values.pop("group")
    return values


def _row(found: sa.RowMapping) -> MirrorRow:
    return MirrorRow(
        group=found["consumer_group"],
        topic=found["topic"],
        topic_id=found["topic_id"],
        partition=found["partition"],
        offset=found["offset"],
        metadata=found["metadata"],
    )
