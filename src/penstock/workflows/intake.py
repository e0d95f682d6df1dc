"""Taking messages in: a dataclip, a work order and a run of each, many at once, in each database's fastest way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.clock import SYSTEM, Clock
from penstock.core.ids import new_ids
from penstock.store.work.run_ids import following_ids
from penstock.store.workflow_tables import UNFINISHED, dataclips, projects, runs, work_orders, workflows
from penstock.tables.cursor import Place
from penstock.tables.errors import wrapped
from penstock.workflows.limits import Limit
from penstock.workflows.message import Message

# What differs from message to message comes first, so that the rest is put together once for all of them.
_COLUMNS: Final = {
    dataclips.name: (
        *("id", "offset", "body", "request", "raw"),
        *("project_id", "type", "trigger_id", "topic", "topic_id", "partition", "inserted_at"),
    ),
    work_orders.name: (
        *("id", "dataclip_id"),
        *("project_id", "workflow_id", "snapshot_id", "trigger_id", "state"),
        *("last_activity", "inserted_at", "updated_at"),
    ),
    runs.name: (
        *("id", "work_order_id", "dataclip_id", "order_key"),
        *("project_id", "workflow_id", "snapshot_id", "starting_trigger_id", "inserted_at", "updated_at"),
    ),
}

_AT_ONCE: Final = 500
"""Rows handed over together: while the server stores some, the next are put together."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose work orders they become, as the store has it now."""

    project: str
    workflow: str
    snapshot: str
    trigger: str | None
    limits: tuple[Limit, ...] = ()


OrderKey = Callable[[Message], str | None]
_Values = tuple[Any, ...]
_Rows = Iterable[_Values]


class Intake(ABC):
    """Writes within a transaction of the caller's."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock

    @abstractmethod
    def _insert(self, connection: sa.Connection, table: sa.Table, varying: _Rows, same: _Values) -> None: ...

    def write(
        self,
        connection: sa.Connection,
        owner: Owner,
        place: Place,
        messages: Sequence[Message],
        *,
        rejected: bool = False,
        order_key: OrderKey = lambda _: None,
    ) -> set[int]:
        """Write all of them; the offsets of those that were taken in before, by recovery or another group.

        Of rejected ones there is no run."""
        try:
            with connection.begin_nested():
                self._write(connection, owner, place, messages, rejected=rejected, order_key=order_key)
        except exc.IntegrityError:
            there = self.known(connection, owner, {place.topic_id}, place, [m.offset for m in messages])
            if not there:
                raise
            rest = [message for message in messages if message.offset not in there]
            if rest:
                self._write(connection, owner, place, rest, rejected=rejected, order_key=order_key)
            return there
        return set()

    def _write(
        self,
        connection: sa.Connection,
        owner: Owner,
        place: Place,
        messages: Sequence[Message],
        *,
        rejected: bool,
        order_key: OrderKey,
    ) -> None:
        now, count = self._clock.now_us(), len(messages)
        ids = new_ids(2 * count)
        clips, orders = ids[:count], ids[count:]
        offsets, bodies, requests, raws, _ = zip(*messages, strict=True)
        same: _Values = (owner.project, "kafka", owner.trigger, place.topic, place.topic_id, place.partition, now)
        self._insert(connection, dataclips, zip(clips, offsets, bodies, requests, raws, strict=True), same)
        state = "rejected" if rejected else "pending"
        same = (owner.project, owner.workflow, owner.snapshot, owner.trigger, state, now, now, now)
        self._insert(connection, work_orders, zip(orders, clips, strict=True), same)
        if not rejected:
            same = (owner.project, owner.workflow, owner.snapshot, owner.trigger, now, now)
            keys = [order_key(message) for message in messages]
            made = self._run_ids(connection, owner, keys)
            self._insert(connection, runs, zip(made, orders, clips, keys, strict=True), same)

    def _run_ids(self, connection: sa.Connection, owner: Owner, keys: Sequence[str | None]) -> list[str]:
        if all(key is None for key in keys):
            return new_ids(len(keys))
        return following_ids(connection, owner.project, owner.workflow, len(keys), self._clock)

    def known(
        self, connection: sa.Connection, owner: Owner, topic_ids: set[str], place: Place, offsets: Sequence[int]
    ) -> set[int]:
        """Those of the offsets that have a dataclip, by any of the topic ids."""
        if owner.trigger is None or not offsets:
            return set()
        c = dataclips.c
        query = sa.select(c.offset).where(
            c.trigger_id == owner.trigger,
            c.topic_id.in_(topic_ids),
            c.topic == place.topic,
            c.partition == place.partition,
            c.offset.between(min(offsets), max(offsets)),
        )
        return set(connection.scalars(query)) & set(offsets)


class _Postgres(Intake):
    """COPY, of text put together here: the driver's own way to write a row takes several times as long."""

    def _insert(self, connection: sa.Connection, table: sa.Table, varying: _Rows, same: _Values) -> None:
        names = ", ".join(f'"{name}"' for name in _COLUMNS[table.name])
        end = "\t".join(map(_field, same))
        lines = _LINES[table.name](varying, f"\t{end}\n")
        cursor: Any = connection.connection.cursor()
        with wrapped(connection), cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
            for start in range(0, len(lines), _AT_ONCE):
                copy.write("".join(lines[start : start + _AT_ONCE]).encode())


class _Sqlite(Intake):
    """One statement, prepared once, for all rows."""

    def _insert(self, connection: sa.Connection, table: sa.Table, varying: _Rows, same: _Values) -> None:
        names = _COLUMNS[table.name]
        marks = ", ".join("?" * len(names))
        columns = ", ".join(f'"{name}"' for name in names)
        statement = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 - names of ours
        connection.exec_driver_sql(statement, [(*each, *same) for each in varying])


def _dataclip_lines(rows: _Rows, end: str) -> list[str]:
    return [
        f"{clip}\t{offset}\t{_escaped(body)}\t{_escaped(request)}\t{_NULL if raw is None else _hex(raw)}{end}"
        for clip, offset, body, request, raw in rows
    ]


def _work_order_lines(rows: _Rows, end: str) -> list[str]:
    return [f"{order}\t{clip}{end}" for order, clip in rows]


def _run_lines(rows: _Rows, end: str) -> list[str]:
    return [f"{run}\t{order}\t{clip}\t{_NULL if key is None else key}{end}" for run, order, clip, key in rows]


_LINES: Final = {dataclips.name: _dataclip_lines, work_orders.name: _work_order_lines, runs.name: _run_lines}
_NULL: Final = "\\N"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _escaped(text: str) -> str:
    """As COPY reads it; most bodies have nothing to escape."""
    if "\\" in text or "\n" in text or "\t" in text or "\r" in text:
        return text.translate(_ESCAPES)
    return text


def _hex(raw: bytes) -> str:
    return f"\\\\x{raw.hex()}"


def _field(value: Any) -> str:
    return _NULL if value is None else _escaped(str(value))


def intake_of(dialect: str, clock: Clock = SYSTEM) -> Intake:
    """The intake of the database at hand."""
    return _Sqlite(clock) if dialect == "sqlite" else _Postgres(clock)


def owner_of(
    connection: sa.Connection,
    workflow: str,
    trigger: str | None,
    limits: Iterable[Limit] = (),
    snapshot: str | None = None,
) -> Owner | None:
    """Whose work orders a workflow's are, with the project's limits beside the given ones; None: it is gone."""
    w, p = workflows.c, projects.c
    query = (
        sa.select(w.project_id, w.snapshot_id, p.name, p.soft_limit, p.hard_limit, p.limit_period)
        .join(projects, p.id == w.project_id)
        .where(w.id == workflow, w.deleted_at.is_(None))
    )
    row = connection.execute(query).one_or_none()
    if row is None or (row.snapshot_id is None and snapshot is None):
        return None
    of_project = Limit(row.project_id, f"project {row.name}", row.soft_limit, row.hard_limit, row.limit_period)
    return Owner(row.project_id, workflow, snapshot or row.snapshot_id, trigger, (of_project, *limits))


def unfinished(connection: sa.Connection, trigger: str, at_most: int) -> int:
    """How many runs of the trigger are not finished; no more than `at_most` are counted."""
    c = runs.c
    some = (
        sa.select(sa.literal(1)).where(c.starting_trigger_id == trigger, sa.text(UNFINISHED)).limit(at_most).subquery()
    )
    return int(connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0)
