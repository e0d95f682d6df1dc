"""Offsets of consumer groups: a mirror of the last commits, in case the broker drops them, and the first start of each
group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import orjson
import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.errors import StoreRowUnreadable
from penstock.store.tables import first_starts, mirrored_offsets
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


class FirstStart(NamedTuple):
    """What a group's first start found of one topic."""

    partitions: int
    """Number of partitions then; those with a higher number were added later."""
    at_ms: int
    """Epoch milliseconds of the first start."""


class Offsets:
    """The repository of mirrored offsets and first starts."""

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
        """The group's last commits by topic and partition. Raises `StoreRowUnreadable`: a commit that cannot be read
        must not count as none, for the start policy would skip what comes after it."""
        query = sa.select(mirrored_offsets).where(mirrored_offsets.c.consumer_group == group)
        with self._database.read() as connection:
            found = connection.execute(query).mappings().all()
        return {(row["topic"], row["partition"]): _row(row) for row in found}

    def first_start(self, group: str, topics: Mapping[str, int], at_ms: int) -> dict[str, FirstStart]:
        """The group's first start by topic id; `topics` is the number of partitions by topic id at this moment.

        The first call for a group records `topics` and `at_ms`; every later or concurrent call, of any instance, gets
        what that call has recorded. Topics that are not in the answer have appeared since.
        """
        values = {"consumer_group": group, "started_at": at_ms, "topics": dict(topics)}
        found = self._first_start(group)
        if found is None:
            with self._database.write() as connection:
                # A concurrent insert of the same key is waited for; one row per group makes it all or nothing.
                connection.execute(insert(self._database, first_starts).values(values).on_conflict_do_nothing())
                found = connection.execute(_one_start(group)).one()
        return _starts(group, *found)

    def forget_start(self, group: str) -> None:
        """Make the group's next start its first; only for what deletes the group's commits, too."""
        with self._database.write() as connection:
            connection.execute(sa.delete(first_starts).where(first_starts.c.consumer_group == group))

    def _first_start(self, group: str) -> sa.Row[int, str] | None:
        with self._database.read() as connection:
            return connection.execute(_one_start(group)).one_or_none()

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
    offset = found["offset"]
    if type(offset) is not int or offset < 0:
        key = f"{found['consumer_group']}, {found['topic']}/{found['partition']}"
        raise StoreRowUnreadable(mirrored_offsets.name, key, "offset", offset, allowed="an offset, 0 or greater")
    return MirrorRow(
        group=found["consumer_group"],
        topic=found["topic"],
        topic_id=found["topic_id"],
        partition=found["partition"],
        offset=found["offset"],
        metadata=found["metadata"],
    )


def _one_start(group: str) -> sa.Select[int, str]:
    # As text: what a newer version has written must be named by the error, whatever it is.
    c = first_starts.c
    return sa.select(c.started_at, sa.type_coerce(c.topics, sa.Text())).where(c.consumer_group == group)


def _starts(group: str, started_at: int, text: str) -> dict[str, FirstStart]:
    try:
        topics = orjson.loads(text)
    except orjson.JSONDecodeError:
        topics = None
    if not isinstance(topics, dict) or not all(type(n) is int and n >= 0 for n in topics.values()):
        raise StoreRowUnreadable(first_starts.name, group, "topics", text, allowed="numbers of partitions by topic id")
    return {topic_id: FirstStart(partitions, started_at) for topic_id, partitions in topics.items()}
