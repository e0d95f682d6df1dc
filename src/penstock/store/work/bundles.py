"""What belongs to many work orders at once: steps, log lines and dataclips, row by row, for exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.work.history_model import DataclipRow, LogRow, StepRow
from penstock.store.work.pages import among_ids
from penstock.store.workflow_tables import dataclips, log_lines, steps

_ROWS: Final = 100
"""Rows in memory at a time: a dataclip may have megabytes."""


class Bundles:
    """Reads as much as is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def steps(self, run_ids: Sequence[str]) -> Iterator[StepRow]:
        mine = among_ids(self._database, steps.c.run_id, run_ids)
        order = (steps.c.run_id, steps.c.started_at, steps.c.id)
        return (StepRow(**row) for row in self._streamed(sa.select(steps).where(mine).order_by(*order)))

    def logs(self, run_ids: Sequence[str]) -> Iterator[LogRow]:
        mine = among_ids(self._database, log_lines.c.run_id, run_ids)
        order = (log_lines.c.run_id, log_lines.c.timestamp, log_lines.c.id)
        return (LogRow(**row) for row in self._streamed(sa.select(log_lines).where(mine).order_by(*order)))

    def dataclips(self, ids: Sequence[str]) -> Iterator[DataclipRow]:
        mine = among_ids(self._database, dataclips.c.id, ids)
        return (DataclipRow(**row) for row in self._streamed(sa.select(dataclips).where(mine).order_by(dataclips.c.id)))

    def _streamed(self, query: sa.Select[Any]) -> Iterator[sa.RowMapping]:
        with self._database.read() as connection:
            yield from connection.execute(query.execution_options(yield_per=_ROWS)).mappings()
