"""The merge of staging rows into `log_dataset_instance_load_status`; it may be run again over any range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import ConfigError
from penstock.tables.column_kinds import ROW_ID, big, text
from penstock.tables.errors import TargetError, is_refusal, words
from penstock.tables.load_status import IDENTITY, SOURCES, Row, Source, load_status, rank
from penstock.tables.lookup_tables import cfg_database
from penstock.tables.metadata_tables import dict_dataset
from penstock.tables.staging import log_dataset_instance_load_status as status
from penstock.tables.target import Target

_PAGE: Final = 500
_TRIES: Final = 3
_PRUNED: Final = 5_000
_OVERLAP: Final = 600_000
"""Rows are stamped before they are committed: the last ten minutes (ms) before the last run are looked at again."""

runs: Final = sa.Table(
    "penstock_merges",
    sa.MetaData(),
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    big("started_at", nullable=False),
    big("ended_at"),
    text("tables", nullable=False),
    big("time_from"),
    big("time_to"),
    big("ingested_from"),
    big("ingested_to"),
    big("rows_read", nullable=False),
    big("inserted", nullable=False),
    big("updated", nullable=False),
    big("refused", nullable=False),
    text("error"),
)


@dataclass(slots=True, kw_only=True)
class MergeRun:
    """One run, as it is recorded in `penstock_merges`. Times are epoch milliseconds."""

    started_at: int
    ended_at: int | None = None
    tables: str
    """The staging tables that were looked at, with commas."""
    time_from: int | None = None
    """Only events since this time; None: from the first."""
    time_to: int | None = None
    """Only events before this time; None: to the last."""
    ingested_from: int | None = None
    """Only rows written since then, which a run without a range takes from the run before it."""
    ingested_to: int | None = None
    """The newest row that was seen; the next run goes on from here."""
    rows_read: int = 0
    inserted: int = 0
    updated: int = 0
    refused: int = 0
    """Rows that the database does not take, for instance because an older table has a narrower key."""
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Merge:
    """Merges the staging tables of one database."""

    def __init__(
        self, target: Target, tables: Sequence[str] = (), *, page: int = _PAGE, surroundings: Clock = SYSTEM
    ) -> None:
        unknown = [name for name in tables if name not in SOURCES]
        if unknown:
            raise ConfigError(f"`{unknown[0]}` tells of no loads", received=unknown[0], allowed=list(SOURCES))
        self._target = target
        self._chosen = [SOURCES[name] for name in tables or SOURCES]
        self._page = page
        self._surroundings = surroundings
        self._known: set[str] = set()

    def new_rows(self) -> MergeRun:
        """Merge what was written since the last such run; the first takes everything."""
        self._prepare()
        with self._target.transaction() as connection:
            same = (runs.c.error.is_(None), runs.c.tables == self._names)
            last = connection.scalar(sa.select(sa.func.max(runs.c.ingested_to)).where(*same))
        run = self._run()
        run.ingested_to, run.ingested_from = last, None if last is None else last - _OVERLAP
        return self._recorded(run)

    def events_between(self, start: int | None, end: int | None) -> MergeRun:
        """Merge the events of a range of time (epoch milliseconds, the end excluded)."""
        self._prepare()
        run = self._run()
        run.time_from, run.time_to = start, end
        return self._recorded(run)

    def prune(self, before: int) -> int:
        """Delete rows of events before this time (epoch milliseconds) that were merged; how many they were."""
        self._prepare()
        with self._target.transaction() as connection:
            merged = connection.scalar(sa.select(sa.func.max(runs.c.ingested_to)).where(runs.c.error.is_(None)))
        gone = 0
        for source in self._chosen:
            table, stamped = self._columns(source)
            # Of a table that does not say when its rows were written nobody knows whether they were merged.
            if stamped and merged is not None and source.table.name in self._known:
                gone += self._prune(table, table.c.log_event_time < before, table.c.ps_ingested_at <= merged - _OVERLAP)
        return gone

    def _prune(self, table: sa.Table, *old: sa.ColumnElement[bool]) -> int:
        """A few thousand at a time: no lock is held for long."""
        time, gone = table.c.log_event_time, 0
        slice_end = sa.select(time).where(*old).order_by(time).limit(1).offset(_PRUNED)
        while True:
            with self._target.transaction() as connection:
                end = connection.scalar(slice_end)
                gone += connection.execute(
                    sa.delete(table).where(*old, *([] if end is None else [time <= end]))
                ).rowcount
            if end is None:
                return gone

    @property
    def _names(self) -> str:
        return ",".join(source.table.name for source in self._chosen)

    def _run(self) -> MergeRun:
        return MergeRun(started_at=self._surroundings.now_ms(), tables=self._names)

    def _prepare(self) -> None:
        with self._target.transaction() as connection:
            self._known = set(sa.inspect(connection).get_table_names())
            if status.name not in self._known:
                hint = "`penstock db create-staging` makes it"
                raise TargetError(f"there is no table {status.name} in {self._target.shown}", hint=hint)
            runs.create(connection, checkfirst=True)

    def _recorded(self, run: MergeRun) -> MergeRun:
        try:
            for source in self._chosen:
                if source.table.name in self._known:
                    self._merge(source, run)
        except Exception as error:
            run.error = words(error) if isinstance(error, exc.SQLAlchemyError) else str(error)
            raise
        finally:
            run.ended_at = self._surroundings.now_ms()
            with self._target.transaction() as connection:
                connection.execute(sa.insert(runs).values(run.as_dict()))
        return run

    def _merge(self, source: Source, run: MergeRun) -> None:
        table, stamped = self._columns(source)
        time = table.c.log_event_time
        wanted = _conditions(run, table, stamped=stamped)
        begin: int | None = None
        while True:
            more = wanted if begin is None else [*wanted, time >= begin]
            begin = self._retried(lambda more=more: self._merge_page(source, table, more, run))  # type: ignore[misc]  # mypy sees no type in the default
            if begin is None:
                return

    def _columns(self, source: Source) -> tuple[sa.Table, bool]:
        """The table with the columns it has: one of WhereHows' own does not say when its rows were written."""
        found = self._target.inspect(source.table.name)
        return (source.table, False) if found is None else (found, "ps_ingested_at" in found.c)

    def _retried(self, work: Callable[[], int | None]) -> int | None:
        """A page that another merge got in the way of is merged again: then it finds that one's rows."""
        for _ in range(_TRIES - 1):
            try:
                return work()
            except exc.IntegrityError:
                continue
        return work()

    def _merge_page(
        self, source: Source, table: sa.Table, wanted: Sequence[sa.ColumnElement[bool]], run: MergeRun
    ) -> int | None:
        """Merge the next rows; the time that the page after it begins with, or None at the end."""
        with self._target.transaction() as connection:
            rows, after = self._next_rows(connection, table, wanted)
            inserted, updated, refused = self._store(connection, source, rows)
        run.rows_read += len(rows)
        run.inserted, run.updated, run.refused = run.inserted + inserted, run.updated + updated, run.refused + refused
        stamps = [row["ps_ingested_at"] for row in rows if row.get("ps_ingested_at") is not None]
        if run.time_from is None and run.time_to is None:
            run.ingested_to = max([*stamps, *([] if run.ingested_to is None else [run.ingested_to])], default=None)
        return after

    def _next_rows(
        self, connection: sa.Connection, table: sa.Table, wanted: Sequence[sa.ColumnElement[bool]]
    ) -> tuple[list[Row], int | None]:
        """Rows in order of time. A page ends where a time ends: the next one begins with another."""
        time = table.c.log_event_time
        query = sa.select(table).where(*wanted).order_by(time)
        rows: list[Any] = list(connection.execute(query.limit(self._page + 1)).mappings())
        if len(rows) <= self._page:
            return rows, None
        last = rows[-1]["log_event_time"]
        before = [row for row in rows if row["log_event_time"] < last]
        if before:
            return before, last
        rows = list(connection.execute(sa.select(table).where(*wanted, time == last)).mappings())
        return rows, last + 1

    def _store(self, connection: sa.Connection, source: Source, rows: Sequence[Row]) -> tuple[int, int, int]:
        datasets = self._dataset_ids(connection, {row["dataset"] for row in rows})
        databases = self._database_ids(connection, {row["cluster"] for row in rows})
        new: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in rows:
            made = load_status(source, row, datasets.get(row["dataset"], 0), databases.get(row["cluster"], 0))
            key = _key(made)
            if key not in new or rank(made) > rank(new[key]):
                new[key] = made
        existing = _existing(connection, new.values())
        counts = {"inserted": 0, "updated": 0, "refused": 0, "same": 0}
        now = datetime.fromtimestamp(self._surroundings.time(), UTC).replace(tzinfo=None, microsecond=0)
        for key, row in new.items():
            counts[_put(connection, row | {"last_modified": now}, existing.get(key))] += 1
            _forget_unknown(connection, row, existing)
        return counts["inserted"], counts["updated"], counts["refused"]

    def _dataset_ids(self, connection: sa.Connection, names: set[str]) -> dict[str, int]:
        if dict_dataset.name not in self._known:
            return {}
        urns = {urn: name for name in names for urn in _urns(name)}
        c = dict_dataset.c
        found = connection.execute(sa.select(c.urn, c.id).where(c.urn.in_(list(urns))))
        return {urns[urn]: number for urn, number in found}

    def _database_ids(self, connection: sa.Connection, clusters: set[str]) -> dict[str, int]:
        if cfg_database.name not in self._known:
            return {}
        c = cfg_database.c
        # Several databases may be of one cluster: the lowest number, so that it is the same every time.
        query = sa.select(c.cluster, sa.func.min(c.db_id)).where(c.cluster.in_(list(clusters))).group_by(c.cluster)
        return {row[0]: row[1] for row in connection.execute(query)}


def _conditions(run: MergeRun, table: sa.Table, *, stamped: bool) -> list[sa.ColumnElement[bool]]:
    time = table.c.log_event_time
    wanted: list[sa.ColumnElement[bool]] = []
    if run.time_from is not None:
        wanted.append(time >= run.time_from)
    if run.time_to is not None:
        wanted.append(time < run.time_to)
    if run.ingested_from is not None and stamped:
        at = table.c.ps_ingested_at
        wanted.append(sa.or_(at >= run.ingested_from, at.is_(None)))
    return wanted


def _urns(name: str) -> Iterator[str]:
    yield name
    if name.startswith("/"):
        yield f"hdfs://{name}"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in IDENTITY)


def _existing(connection: sa.Connection, rows: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    rows = list(rows)
    c = status.c
    query = sa.select(status).where(
        c.dataset_native_name.in_(sorted({row["dataset_native_name"] for row in rows})),
        c.data_time_epoch.in_(sorted({row["data_time_epoch"] for row in rows})),
    )
    found = [dict(row) for row in connection.execute(query).mappings()]
    return {_key(row): row for row in found}


def _put(connection: sa.Connection, row: dict[str, Any], old: Row | None) -> str:
    """Insert the row, or update the one that is there where this one is the greater."""
    if old is not None and rank(row) <= rank(old):
        return "same"
    try:
        with connection.begin_nested():
            if old is None:
                connection.execute(sa.insert(status).values(row))
            else:
                connection.execute(sa.update(status).where(*_at(row)).values(row))
    except exc.IntegrityError:
        if _is_there(connection, row):
            raise  # another merge was faster
        return "refused"
    except exc.DBAPIError as error:
        if not is_refusal(error):
            raise
        return "refused"
    return "inserted" if old is None else "updated"


def _is_there(connection: sa.Connection, row: Row) -> bool:
    return connection.scalar(sa.select(sa.func.count()).select_from(status).where(*_at(row))) != 0


def _at(row: Row) -> list[sa.ColumnElement[bool]]:
    return [status.c[name] == row[name] for name in IDENTITY]


def _forget_unknown(connection: sa.Connection, row: Row, existing: dict[tuple[Any, ...], Row]) -> None:
    """The row that stood for a dataset while it was not known."""
    unknown = dict(row) | {"dataset_id": 0}
    if row["dataset_id"] and _key(unknown) in existing:
        connection.execute(sa.delete(status).where(*_at(unknown)))
