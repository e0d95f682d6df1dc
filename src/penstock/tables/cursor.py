"""The cursor: the next offset of each partition, stored in the target database and moved in the transaction that writes
the rows. Beside it, the events that failed, so that a replay writes each of them once, too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import mysql

from penstock.tables.errors import Fenced
from penstock.tables.target import Target

metadata: Final = sa.MetaData()

_NAME: Final = 255
_LONG: Final = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")

cursors: Final = sa.Table(
    "penstock_cursors",
    metadata,
    sa.Column("pipeline", sa.String(_NAME), primary_key=True),
    sa.Column("topic_id", sa.String(_NAME), primary_key=True),
    sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("topic", sa.String(_NAME), nullable=False),
    sa.Column("next_offset", sa.BigInteger(), nullable=False),
    sa.Column("updated_at", sa.BigInteger(), nullable=False),
)

failures: Final = sa.Table(
    "penstock_failures",
    metadata,
    sa.Column("pipeline", sa.String(_NAME), primary_key=True),
    sa.Column("topic_id", sa.String(_NAME), primary_key=True),
    sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger(), primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("failure", _LONG),
)
OPEN, SETTLED, APPLIED = "open", "settled", "applied"
"""A failure that may not be in the store yet; a dead letter; an event that a replay has written."""


class Place(NamedTuple):
    """A partition of a pipeline: another topic id is another topic, whatever its name."""

    pipeline: str
    topic_id: str
    partition: int
    topic: str


def make_tables(target: Target) -> None:
    """Create what is missing; two instances may do so at the same moment."""
    for table in metadata.sorted_tables:
        with suppress(exc.IntegrityError, exc.ProgrammingError, exc.OperationalError), target.transaction() as made:
            table.create(made, checkfirst=True)


def read(connection: sa.Connection, place: Place) -> int | None:
    """The cursor of one partition; None: it has none yet."""
    return connection.scalar(sa.select(cursors.c.next_offset).where(*_at(cursors, place)))


def read_all(connection: sa.Connection, places: Sequence[Place]) -> dict[Place, int]:
    """The cursors of these partitions of one pipeline, in one query; partitions without a cursor are absent."""
    c = cursors.c
    query = sa.select(c.topic_id, c.partition, c.next_offset).where(*_among(cursors, places))
    found = {(row.topic_id, row.partition): row.next_offset for row in connection.execute(query)}
    keys = [(place, (place.topic_id, place.partition)) for place in places]
    return {place: found[key] for place, key in keys if key in found}


def positions(connection: sa.Connection, pipeline: str) -> dict[tuple[str, int], int]:
    """Where the rows of a pipeline end, by topic and partition; of topics that were made anew, as of the last one."""
    c = cursors.c
    query = sa.select(c.topic, c.partition, c.next_offset).where(c.pipeline == pipeline).order_by(c.updated_at)
    return {(row.topic, row.partition): row.next_offset for row in connection.execute(query)}


def topic_ids(connection: sa.Connection, pipeline: str, topic: str) -> list[str]:
    """Ids by which the pipeline has known topics of this name, the last one first."""
    c = cursors.c
    last = sa.func.max(c.updated_at)
    query = sa.select(c.topic_id).where(c.pipeline == pipeline, c.topic == topic).group_by(c.topic_id)
    return list(connection.scalars(query.order_by(last.desc())))


def begin(connection: sa.Connection, place: Place, offset: int) -> None:
    """The first cursor of a partition; `Fenced` where another instance has inserted it meanwhile."""
    values = _key(place) | {"topic": place.topic, "next_offset": offset, "updated_at": _now()}
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(cursors).values(values))
    except exc.IntegrityError as error:
        raise Fenced(f"another instance has begun {place.topic}/{place.partition}") from error


def move(connection: sa.Connection, place: Place, current: int, end: int) -> None:
    """I5: compare and set; `Fenced` where the cursor is not `current` any more."""
    moved = sa.update(cursors).where(*_at(cursors, place), cursors.c.next_offset == current)
    # The time makes each update a change: MySQL counts changed rows, not found ones.
    if connection.execute(moved.values(next_offset=end, updated_at=_now())).rowcount != 1:
        raise Fenced(
            f"the cursor of {place.topic}/{place.partition} is no longer {current}: another instance has moved it",
            received=current,
        )


def put(connection: sa.Connection, place: Place, offset: int) -> None:
    """Set the cursor, whatever it was: for a deliberate reprocessing."""
    moved = sa.update(cursors).where(*_at(cursors, place)).values(next_offset=offset, updated_at=_now())
    if connection.execute(moved).rowcount == 0:
        begin(connection, place, offset)


def keep(connection: sa.Connection, place: Place, failed: Sequence[tuple[int, bytes]]) -> None:
    """Note the failures of a chunk, by offset."""
    if failed:
        again = failures.c.offset.in_([offset for offset, _ in failed])
        connection.execute(sa.delete(failures).where(*_at(failures, place), again))
        same = {**_key(place), "state": OPEN}
        connection.execute(sa.insert(failures), [same | {"offset": offset, "failure": text} for offset, text in failed])


def unsettled(connection: sa.Connection, places: Sequence[Place]) -> dict[Place, list[tuple[int, bytes]]]:
    """Failures of these partitions of one pipeline that may not be in the store yet, by offset, in one query."""
    c = failures.c
    query = sa.select(c.topic_id, c.partition, c.offset, c.failure).where(*_among(failures, places), c.state == OPEN)
    by_key = {(place.topic_id, place.partition): place for place in places}
    found: dict[Place, list[tuple[int, bytes]]] = {}
    for row in connection.execute(query.order_by(c.offset)):
        place = by_key.get((row.topic_id, row.partition))
        if place is not None and row.failure:
            found.setdefault(place, []).append((row.offset, row.failure))
    return found


def keep_settled(connection: sa.Connection, place: Place, offset: int) -> None:
    """Note a failure that is a dead letter already. Other failures of the partition stay as they are."""
    connection.execute(sa.delete(failures).where(*_at(failures, place), failures.c.offset == offset))
    values = {**_key(place), "offset": offset, "state": SETTLED, "failure": None}
    connection.execute(sa.insert(failures).values(values))


def settle(connection: sa.Connection, place: Place, below: int) -> None:
    """Failures below this offset are dead letters in the store."""
    done = sa.update(failures).where(*_at(failures, place), failures.c.offset < below, failures.c.state == OPEN)
    connection.execute(done.values(state=SETTLED, failure=None))


def written(connection: sa.Connection, place: Place, offsets: Sequence[int]) -> set[int]:
    """Those of these events that took effect: by a replay, or below the cursor without ever having failed."""
    query = sa.select(failures.c.offset, failures.c.state).where(*_at(failures, place), failures.c.offset.in_(offsets))
    states = {row.offset: row.state for row in connection.execute(query)}
    end = read(connection, place) or 0
    return {offset for offset in offsets if states.get(offset, APPLIED if offset < end else OPEN) == APPLIED}


def apply(connection: sa.Connection, place: Place, offsets: Sequence[int]) -> None:
    """A replay writes these events now. Whoever else would is refused by the key."""
    if offsets:
        mine = sa.delete(failures).where(*_at(failures, place), failures.c.offset.in_(offsets))
        connection.execute(mine.where(failures.c.state != APPLIED))
        same = {**_key(place), "state": APPLIED, "failure": None}
        try:
            connection.execute(sa.insert(failures), [same | {"offset": offset} for offset in offsets])
        except exc.IntegrityError as error:
            raise Fenced(f"another replay is writing events of {place.topic}/{place.partition}") from error


def _key(place: Place) -> dict[str, object]:
    return {"pipeline": place.pipeline, "topic_id": place.topic_id, "partition": place.partition}


def _at(table: sa.Table, place: Place) -> list[sa.ColumnElement[bool]]:
    c = table.c
    return [c.pipeline == place.pipeline, c.topic_id == place.topic_id, c.partition == place.partition]


def _among(table: sa.Table, places: Sequence[Place]) -> list[sa.ColumnElement[bool]]:
    """Rows of these partitions, and perhaps of further ones of the same pipeline: the caller compares the key."""
    c = table.c
    topic_ids, partitions = {place.topic_id for place in places}, {place.partition for place in places}
    return [c.pipeline == places[0].pipeline, c.topic_id.in_(topic_ids), c.partition.in_(partitions)]


def _now() -> int:
    return time.time_ns() // 1_000
