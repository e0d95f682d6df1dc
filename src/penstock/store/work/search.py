"""Makes work orders searchable in the background, and finds them by words.

What is new is found by ids, which grow with time. A transaction may take a while between making its ids and its commit,
so that everything is looked through twice: soon, and once more when all that could be late has come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from penstock.core.ids import first_id, time_of
from penstock.store.database import Database
from penstock.store.letters.conditions import among
from penstock.store.upsert import upsert
from penstock.store.work import words
from penstock.store.work.history_model import SearchField
from penstock.store.work.pages import among_ids
from penstock.store.workflow_tables import (
    WORDS,
    dataclips,
    log_lines,
    positions,
    projects,
    runs,
    steps,
    work_orders,
    work_search,
)

_IDS: Final = 1_000
"""Work orders that are found by the beginning of an id."""

_s = work_search.c

# As one JSON text: with a placeholder per value the driver takes longer than the index does.
_INSERT: Final = f"""
INSERT INTO {work_search.name} (work_order_id, part, words)
SELECT work_order_id, part, array_to_tsvector(string_to_array(words, ' '))
FROM json_to_recordset(CAST(:rows AS json)) AS given(work_order_id uuid, part uuid, words text)
ON CONFLICT DO NOTHING
"""  # noqa: S608 - a constant


class _Pace(NamedTuple):
    """How long after they were made rows are looked at."""

    name: str
    micros: int
    is_late: bool


_SOON: Final = _Pace("soon", 1_000_000, is_late=False)
_LATE: Final = _Pace("late", 300_000_000, is_late=True)
"""Later than any transaction takes."""


class _Text(NamedTuple):
    """A row of the search: what is found, and by which words."""

    work_order_id: str
    part: str
    words: str


class _Stretch(NamedTuple):
    """Rows that are looked at together."""

    end: str
    rows: int
    texts: list[_Text]


class _Kind(NamedTuple):
    """One kind of texts: where they are, in the order of their ids."""

    name: str
    table: sa.Table
    query: sa.Select[Any]

    @property
    def lock(self) -> str:
        return f"penstock search {self.name}"


_BODIES: Final = _Kind(
    "bodies",
    work_orders,
    sa.select(
        *(work_orders.c.id, work_orders.c.id.label("work_order_id"), work_orders.c.dataclip_id.label("part")),
        *(work_orders.c.workflow_id, work_orders.c.project_id, dataclips.c.name),
        sa.func.substr(dataclips.c.body, 1, words.TEXT_CHARACTERS).label("body"),
    ).outerjoin(dataclips, dataclips.c.id == work_orders.c.dataclip_id),
)
_LOGS: Final = _Kind(
    "logs",
    log_lines,
    sa.select(
        *(log_lines.c.id, runs.c.work_order_id, log_lines.c.id.label("part"), runs.c.workflow_id, runs.c.project_id),
        sa.func.substr(log_lines.c.message, 1, words.TEXT_CHARACTERS).label("message"),
    ).outerjoin(runs, runs.c.id == log_lines.c.run_id),
)


class WorkSearch:
    """The index of words. Instances may all call it: one at a time does something."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def index_some(self, limit: int = 2_000) -> int:
        """Make up to so many rows of each kind searchable; how many were looked at, 0 where nothing waits."""
        return sum(self._pass(kind, pace, limit) for kind in (_BODIES, _LOGS) for pace in (_SOON, _LATE))

    def seconds_behind(self) -> float:
        """How long the oldest work order that is not searchable yet has waited."""
        with self._database.read() as connection:
            position = _position(connection, f"search/{_BODIES.name}/{_SOON.name}")
            newer = sa.select(work_orders.c.id).where(work_orders.c.id > position)
            oldest = connection.scalar(newer.order_by(work_orders.c.id).limit(1))
            return max(0.0, (self._database.micros(connection) - time_of(oldest)) / 1e6) if oldest else 0.0

    def hold(self, connection: sa.Connection) -> None:
        """Let nobody index to the end of the transaction: whoever is about to put words into the index has done so
        before they are taken out of it."""
        if not self._database.is_sqlite:
            for kind in (_BODIES, _LOGS):
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(kind.lock))))

    def forget(self, connection: sa.Connection, *, parts: Sequence[str] = (), orders: Sequence[str] = ()) -> None:
        """Dataclips and log lines, or whole work orders, are gone or empty: so are their words. Within `hold`."""
        for column, ids in ((_s.part, parts), (_s.work_order_id, orders)):
            mine = among_ids(self._database, column, ids)
            if self._database.is_sqlite:
                numbers = list(connection.scalars(sa.select(_s.number).where(mine)))
                texts = sa.table(WORDS, sa.column("rowid", sa.Integer()))
                connection.execute(sa.delete(texts).where(among(self._database, texts.c.rowid, numbers)))
            connection.execute(sa.delete(work_search).where(mine))

    def found(self, term: str, fields: Collection[SearchField], owners: Collection[str]) -> sa.Select[Any] | None:
        """Selects the ids of work orders with these words; None where the texts need not be asked."""
        matches = self.matches(term, fields, owners)
        if matches is None:
            return None
        if not self._database.is_sqlite:
            return sa.select(_s.work_order_id).where(matches)
        texts = sa.table(WORDS, sa.column("rowid", sa.Integer()))
        return (
            sa.select(_s.work_order_id).select_from(texts).join(work_search, _s.number == texts.c.rowid).where(matches)
        )

    def matches(
        self, term: str, fields: Collection[SearchField], owners: Collection[str]
    ) -> sa.ColumnElement[bool] | None:
        """The condition on a row of the search; in SQLite on one of the words."""
        if self._database.is_sqlite:
            asked = words.sqlite_query(term, fields, owners)
            return None if asked is None else sa.column(WORDS).op("MATCH")(asked)
        asked = words.postgres_query(term, fields, owners)
        return None if asked is None else _s.words.op("@@")(sa.cast(asked, postgresql.TSQUERY))

    def by_id(self, connection: sa.Connection, term: str) -> list[str]:
        """Work orders that have such an id, or a run or step of theirs."""
        bounds = words.id_range(term)
        if bounds is None:
            return []
        of_steps = sa.select(runs.c.work_order_id).join(steps, steps.c.run_id == runs.c.id)
        asked = (
            sa.select(work_orders.c.id).where(work_orders.c.id.between(*bounds)),
            sa.select(runs.c.work_order_id).where(runs.c.id.between(*bounds)),
            of_steps.where(steps.c.id.between(*bounds)),
        )
        return [found for query in asked for found in connection.scalars(query.limit(_IDS))]

    def _pass(self, kind: _Kind, pace: _Pace, limit: int) -> int:
        name = f"search/{kind.name}/{pace.name}"
        if self._database.is_sqlite:
            # The one writer that SQLite lets in is not kept waiting while words are cut.
            with self._database.read() as connection:
                position = _position(connection, name)
                stretch = self._stretch(connection, kind, pace, position, limit)
            if stretch is None:
                return 0
            with self._database.write() as connection:
                if _position(connection, name) == position:
                    _put_sqlite(connection, self._unwiped(connection, kind, stretch.texts))
                    self._move(connection, name, stretch.end)
            return stretch.rows
        with self._database.write() as connection:
            if not _is_free(connection, kind):
                return 0
            # What a crash takes away is made again: words and position are written together.
            connection.execute(sa.text("SET LOCAL synchronous_commit = off"))
            stretch = self._stretch(connection, kind, pace, _position(connection, name), limit)
            if stretch is None:
                return 0
            given = orjson.dumps([text._asdict() for text in stretch.texts]).decode()
            connection.execute(sa.text(_INSERT), {"rows": given})
            self._move(connection, name, stretch.end)
            return stretch.rows

    def _stretch(
        self, connection: sa.Connection, kind: _Kind, pace: _Pace, position: str, limit: int
    ) -> _Stretch | None:
        """The next rows behind a position; None where there are none."""
        column = kind.table.c.id
        until = first_id(self._database.micros(connection) - pace.micros)
        if pace.is_late:
            until = min(until, _position(connection, f"search/{kind.name}/{_SOON.name}"))
        ahead = sa.select(column).where(column > position, column < until).order_by(column).limit(limit).subquery()
        end, rows = connection.execute(sa.select(sa.func.max(sa.cast(ahead.c.id, sa.Text)), sa.func.count())).one()
        if end is None:
            return None
        query = kind.query.where(column > position, column <= end)
        if pace.is_late:
            asked = kind.query.selected_columns
            query = query.where(~sa.exists().where(_s.work_order_id == asked.work_order_id, _s.part == asked.part))
        texts = _texts(kind, connection.execute(query), _erased(connection))
        return _Stretch(end=end, rows=rows, texts=texts)

    def _unwiped(self, connection: sa.Connection, kind: _Kind, texts: list[_Text]) -> list[_Text]:
        """Without what was wiped or deleted since it was read."""
        if kind is not _BODIES:
            return texts
        mine = among_ids(self._database, dataclips.c.id, [text.part for text in texts])
        left = set(connection.scalars(sa.select(dataclips.c.id).where(mine, dataclips.c.wiped_at.is_(None))))
        return [text for text in texts if text.part in left]

    def _move(self, connection: sa.Connection, name: str, position: str) -> None:
        row = {"name": name, "position": position, "updated_at": self._database.micros(connection)}
        connection.execute(upsert(self._database, positions), row)


def _position(connection: sa.Connection, name: str) -> str:
    return connection.scalar(sa.select(positions.c.position).where(positions.c.name == name)) or first_id(0)


def _is_free(connection: sa.Connection, kind: _Kind) -> bool:
    """Whether nobody else is at it; from now to the end of the transaction it is us."""
    return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(sa.func.hashtext(kind.lock)))))


def _erased(connection: sa.Connection) -> set[str]:
    """Projects whose data is not to be kept: nor is it in an index."""
    return set(connection.scalars(sa.select(projects.c.id).where(projects.c.retention_policy == "erase_all")))


def _texts(kind: _Kind, rows: Iterable[Any], erased: set[str]) -> list[_Text]:
    found = []
    for row in rows:
        # Of rows that were deleted meanwhile there is nothing left to find.
        if row.work_order_id is None or row.part is None or row.project_id in erased:
            continue
        owners = (row.workflow_id, row.project_id)
        text = (
            words.of_log_line(row.message, owners) if kind is _LOGS else words.of_dataclip(row.body, row.name, owners)
        )
        if text:
            found.append(_Text(row.work_order_id, row.part, text))
    return found


def _put_sqlite(connection: sa.Connection, texts: list[_Text]) -> None:
    """Numbers are given here: rows and words have them in common. They are never used twice."""
    last = connection.scalar(sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name"), {"name": work_search.name})
    numbered = list(enumerate(texts, start=(last or 0) + 1))
    if numbered:
        rows = [(number, text.work_order_id, text.part) for number, text in numbered]
        connection.exec_driver_sql(
            f"INSERT INTO {work_search.name} (number, work_order_id, part) VALUES (?, ?, ?)",  # noqa: S608 - a constant
            rows,
        )
        connection.exec_driver_sql(
            f"INSERT INTO {WORDS} (rowid, words) VALUES (?, ?)",  # noqa: S608 - a constant
            [(number, text.words) for number, text in numbered],
        )
