"""Work orders as people look at them: lists, counts, one with all that belongs to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import sqlalchemy as sa

from penstock.core.ids import is_id, time_of
from penstock.store.database import Database
from penstock.store.work import pages
from penstock.store.work.history_model import (
    TERM_CAP,
    Count,
    DataclipRow,
    LogRow,
    Order,
    RunDetail,
    RunRow,
    StepRow,
    WorkOrderCursor,
    WorkOrderDetail,
    WorkOrderFilter,
    WorkOrderRow,
)
from penstock.store.work.search import WorkSearch
from penstock.store.workflow_tables import dataclips, log_lines, runs, steps, work_orders, work_search, workflows

LOG_LINES: Final = 1_000
"""Of each run, where a whole work order is shown; `logs` gives the rest."""
_OLDER: Final = 5_000
"""Work orders in which something happened after much newer ones were received, that are looked at one by one."""
_NEWEST: Final = 500
"""Work orders that are looked at one by one before the index of words is asked for all: what is frequent is among them,
and what is not is found by the index without sorting much."""

_c = work_orders.c
_ROWS: Final = sa.select(
    work_orders, workflows.c.name.label("workflow"), workflows.c.deleted_at.is_not(None).label("workflow_deleted")
).join(workflows, workflows.c.id == _c.workflow_id)

# Within the class, `list` is a method.
Rows = list[WorkOrderRow]
Logs = list[LogRow]
Ids = list[str]


class History:
    """The repository of what was done."""

    def __init__(self, database: Database, search: WorkSearch) -> None:
        self._database = database
        self._search = search

    def list(
        self,
        which: WorkOrderFilter | None = None,
        *,
        order: Order = "created",
        limit: int = 10,
        after: WorkOrderCursor | None = None,
        skip: int = 0,
        oldest_first: bool = False,
    ) -> Rows:
        """A page, newest first unless `oldest_first`; `after` goes on behind the row whose cursor it is."""
        with self._database.read() as connection:
            ids = self._ids(
                connection,
                which or WorkOrderFilter(),
                order=order,
                limit=limit + skip,
                after=after,
                oldest_first=oldest_first,
            )
            return self._rows(connection, ids[skip:])

    def count(self, which: WorkOrderFilter | None = None, *, cap: int | None = None) -> Count:
        """How many there are, at most `cap`; where they must be searched for, at most 50."""
        which = which or WorkOrderFilter()
        if pages.has_malformed_ids(which):
            return Count(0, is_capped=False)
        with self._database.read() as connection:
            if (which.term or "").strip():
                cap = min(cap or TERM_CAP, TERM_CAP)
                ids = self._ids(connection, which, order="created", limit=cap + 1, after=None, oldest_first=False)
                return Count(min(len(ids), cap), is_capped=len(ids) > cap)
            query = sa.select(_c.id).where(*pages.conditions(self._database, which))
            if cap is not None:
                query = query.limit(cap + 1)
            number = connection.scalar(sa.select(sa.func.count()).select_from(query.subquery())) or 0
        return Count(number if cap is None else min(number, cap), is_capped=cap is not None and number > cap)

    def get(self, work_order_id: str) -> WorkOrderRow | None:
        """With its runs."""
        with self._database.read() as connection:
            found = self._rows(connection, [work_order_id.lower()] if is_id(work_order_id) else [])
        return found[0] if found else None

    def show(self, work_order_id: str) -> WorkOrderDetail | None:
        """With steps, the first log lines and the dataclips of all its runs."""
        with self._database.read() as connection:
            found = self._rows(connection, [work_order_id.lower()] if is_id(work_order_id) else [])
            if not found:
                return None
            row = found[0]
            details = tuple(self._detail(connection, run) for run in row.runs)
            wanted = {row.dataclip_id, *(clip for detail in details for clip in _clips(detail))}
            clips = self._dataclips(connection, wanted)
        return WorkOrderDetail(row=row, runs=details, dataclips={clip.id: clip for clip in clips})

    def run(self, run_id: str) -> RunDetail | None:
        """With its steps and first log lines."""
        if not is_id(run_id):
            return None
        with self._database.read() as connection:
            found = connection.execute(sa.select(runs).where(runs.c.id == run_id.lower())).mappings().one_or_none()
            return self._detail(connection, RunRow(**found)) if found else None

    def dataclip(self, dataclip_id: str) -> DataclipRow | None:
        with self._database.read() as connection:
            found = self._dataclips(connection, [dataclip_id])
        return found[0] if found else None

    def logs(self, run_id: str, *, after: LogRow | None = None, limit: int = LOG_LINES) -> Logs:
        """Lines of a run in their order; `after` goes on behind a line."""
        if not is_id(run_id):
            return []
        with self._database.read() as connection:
            return self._logs(connection, run_id.lower(), after, limit)

    def _ids(
        self,
        connection: sa.Connection,
        which: WorkOrderFilter,
        *,
        order: Order,
        limit: int,
        after: WorkOrderCursor | None,
        oldest_first: bool,
    ) -> Ids:
        if pages.has_malformed_ids(which):
            return []
        place: dict[str, Any] = {"order": order, "after": after, "oldest_first": oldest_first}
        term = (which.term or "").strip()
        if not term:
            return pages.page(self._database, connection, which, limit=limit, **place)
        matches = self._search.matches(term, which.fields, _owners(which))
        named = self._search.by_id(connection, term) if "id" in which.fields else []
        if not self._database.is_sqlite and matches is not None:
            newest = pages.page(self._database, connection, which, limit=_NEWEST, **place)
            found = self._among(connection, newest, matches, named)
            if len(found) >= limit or len(newest) < _NEWEST:
                return found[:limit]
            if order == "activity" and not oldest_first and not named:
                found_of_old = self._by_activity(connection, which, matches, limit=limit, after=after)
                if found_of_old is not None:
                    return found_of_old
        return self._by_words(connection, which, named, limit=limit, **place)

    def _by_activity(
        self,
        connection: sa.Connection,
        which: WorkOrderFilter,
        matches: sa.ColumnElement[bool],
        *,
        limit: int,
        after: WorkOrderCursor | None,
    ) -> Ids | None:
        """The last active ones of many with the words, without looking at them all: those received last, and the older
        ones in which something happened since. None where that would be many, too."""
        behind = pages.behind("activity", after, oldest_first=False)
        received = self._by_words(
            connection, which, (), order="created", limit=limit, after=None, oldest_first=False, more=behind
        )
        if len(received) < limit:
            return None
        times = sa.select(sa.func.min(_c.last_activity)).where(pages.among_ids(self._database, _c.id, received))
        since = connection.scalar(times) or 0
        before = time_of(received[-1]) + 1
        narrow = replace(
            which,
            term=None,
            active_after=max(since, which.active_after or 0),
            received_before=min(before, which.received_before or before),
        )
        older = pages.page(
            self._database, connection, narrow, order="activity", limit=_OLDER, after=after, oldest_first=False
        )
        if len(older) == _OLDER:
            return None
        both = {*received, *self._among(connection, older, matches, ())}
        query = sa.select(_c.id).where(pages.among_ids(self._database, _c.id, list(both)))
        query = query.order_by(*pages.ordering(_c, "activity", oldest_first=False)).limit(limit)
        return list(connection.scalars(query))

    def _among(self, connection: sa.Connection, ids: Ids, matches: sa.ColumnElement[bool], named: Sequence[str]) -> Ids:
        """Those of a page that have the words."""
        mine = pages.among_ids(self._database, work_search.c.work_order_id, ids)
        query = sa.select(work_search.c.work_order_id).where(mine, pages.unindexed(matches))
        found = {*named, *connection.scalars(query)}
        return [one for one in ids if one in found]

    def _by_words(
        self,
        connection: sa.Connection,
        which: WorkOrderFilter,
        named: Sequence[str],
        *,
        order: Order,
        limit: int,
        after: WorkOrderCursor | None,
        oldest_first: bool,
        more: Sequence[sa.ColumnElement[bool]] = (),
    ) -> Ids:
        found = self._search.found((which.term or "").strip(), which.fields, _owners(which))
        if found is not None:
            # Known to the rows of the search as well: what has the words at other times need not be put in order.
            ends = [end for end in (which.received_before, which.active_before) if end is not None]
            narrow = replace(which, received_before=min(ends, default=None))
            found = found.where(*pages.received_conditions(narrow, work_search.c.work_order_id))
        by_name = sa.select(_c.id.label("work_order_id")).where(pages.among_ids(self._database, _c.id, named))
        wanted: Any = by_name if found is None else sa.union(found, by_name) if named else found.distinct()
        behind = pages.behind(order, after, oldest_first=oldest_first)
        wheres = [*pages.conditions(self._database, which), *behind, *more]
        if self._database.is_sqlite or order == "activity":
            # Materialised: the planner would rather walk through all work orders in the order of the list, hoping to
            # meet enough of them soon; that there are not many is known by now.
            ids = wanted.cte("wanted").prefix_with("MATERIALIZED")
            query = sa.select(_c.id).join(ids, ids.c.work_order_id == _c.id).where(*wheres)
            query = query.order_by(*pages.ordering(_c, order, oldest_first=oldest_first))
        else:
            # One after the other in the order of the list, for many may be found and few are wanted: the offsets, of
            # nothing, keep the planner from joining them all.
            ids = wanted.subquery("ids")
            place = ids.c.work_order_id.asc() if oldest_first else ids.c.work_order_id.desc()
            ordered = sa.select(ids.c.work_order_id).order_by(place).offset(0).subquery("ordered")
            mine = sa.select(_c.id).where(_c.id == ordered.c.work_order_id, *wheres).offset(0).lateral("mine")
            query = sa.select(mine.c.id).select_from(ordered.join(mine, sa.true()))
            query = query.order_by(ordered.c.work_order_id.asc() if oldest_first else ordered.c.work_order_id.desc())
        if not self._database.is_sqlite:
            # What is found is put together in memory; the server's default of 4 MB would do that on disk.
            connection.execute(sa.text("SET LOCAL work_mem = '64MB'"))
        return list(connection.scalars(query.limit(limit)))

    def _rows(self, connection: sa.Connection, ids: Sequence[str]) -> Rows:
        """In the order of the ids."""
        if not ids:
            return []
        found = connection.execute(_ROWS.where(pages.among_ids(self._database, _c.id, ids))).mappings()
        rows = {row["id"]: WorkOrderRow(**row) for row in found}
        mine = pages.among_ids(self._database, runs.c.work_order_id, ids)
        ordered = connection.execute(sa.select(runs).where(mine).order_by(runs.c.work_order_id, runs.c.id)).mappings()
        for one, its_runs in groupby(ordered, key=lambda row: row["work_order_id"]):
            if one in rows:
                rows[one] = replace(rows[one], runs=tuple(RunRow(**run) for run in its_runs))
        return [rows[one] for one in ids if one in rows]

    def _detail(self, connection: sa.Connection, run: RunRow) -> RunDetail:
        query = sa.select(steps).where(steps.c.run_id == run.id).order_by(steps.c.started_at, steps.c.id)
        found = tuple(StepRow(**row) for row in connection.execute(query).mappings())
        logs = self._logs(connection, run.id, None, LOG_LINES + 1)
        return RunDetail(run=run, steps=found, logs=tuple(logs[:LOG_LINES]), has_more_logs=len(logs) > LOG_LINES)

    def _logs(self, connection: sa.Connection, run_id: str, after: LogRow | None, limit: int) -> Logs:
        c = log_lines.c
        query = sa.select(log_lines).where(c.run_id == run_id).order_by(c.timestamp, c.id).limit(limit)
        if after is not None:
            place = sa.tuple_(after.timestamp, sa.literal(after.id, c.id.type))
            query = query.where(sa.tuple_(c.timestamp, c.id) > place)
        return [LogRow(**row) for row in connection.execute(query).mappings()]

    def _dataclips(self, connection: sa.Connection, ids: Iterable[str | None]) -> Sequence[DataclipRow]:
        mine = pages.among_ids(self._database, dataclips.c.id, [one for one in ids if one])
        return [DataclipRow(**row) for row in connection.execute(sa.select(dataclips).where(mine)).mappings()]


def _owners(which: WorkOrderFilter) -> tuple[str, ...]:
    """What narrows the choice within the index of words."""
    return tuple(filter(None, [which.workflow_id or which.project_id]))


def _clips(detail: RunDetail) -> Iterable[str | None]:
    yield from (detail.run.dataclip_id, detail.run.final_dataclip_id)
    for step in detail.steps:
        yield from (step.input_dataclip_id, step.output_dataclip_id)
