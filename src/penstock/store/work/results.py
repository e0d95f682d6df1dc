"""What workers report of the runs that they hold, in batches. A run is ended once: by its holder, or as lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from penstock.store.database import Database
from penstock.store.many import insert_many
from penstock.store.upsert import Insert
from penstock.store.work.deriving import Changed, Derive, among, derive_orders
from penstock.store.workflow_tables import dataclips, log_lines, runs, steps

_HELD: Final = "penstock_runs.worker_name = :token AND penstock_runs.state IN ('claimed', 'started')"


@dataclass(slots=True, frozen=True, kw_only=True)
class RunEnd:
    """How a run ended; `state` is a final one."""

    id: str
    state: str
    error_type: str | None
    final_dataclip_id: str | None
    started_at: int
    finished_at: int


@dataclass(slots=True, frozen=True, kw_only=True)
class StepRow:
    """A step of a run; without an end while it is being executed."""

    id: str
    run_id: str
    name: str
    snapshot_id: str
    input_dataclip_id: str | None
    started_at: int
    output_dataclip_id: str | None = None
    exit_reason: str | None = None
    error_type: str | None = None
    finished_at: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class StepResult:
    """A dataclip that a step made."""

    id: str
    run_id: str
    project_id: str
    body: str
    inserted_at: int


@dataclass(slots=True, frozen=True, kw_only=True)
class LogLine:
    id: str
    run_id: str
    step_id: str | None
    source: str
    level: str
    message: str
    timestamp: int


@dataclass(slots=True)
class Report:
    """What has happened to runs since the last report."""

    starts: dict[str, int] = field(default_factory=dict)
    """When each run began that is still being executed."""
    steps: list[StepRow] = field(default_factory=list)
    dataclips: list[StepResult] = field(default_factory=list)
    log_lines: list[LogLine] = field(default_factory=list)
    ends: list[RunEnd] = field(default_factory=list)

    @property
    def runs(self) -> set[str]:
        rows: list[StepRow | StepResult | LogLine] = [*self.steps, *self.dataclips, *self.log_lines]
        return {row.run_id for row in rows} | {end.id for end in self.ends} | self.starts.keys()

    def only(self, wanted: Collection[str]) -> Report:
        """The part that concerns these runs."""
        return Report(
            {run: at for run, at in self.starts.items() if run in wanted},
            [row for row in self.steps if row.run_id in wanted],
            [row for row in self.dataclips if row.run_id in wanted],
            [row for row in self.log_lines if row.run_id in wanted],
            [end for end in self.ends if end.id in wanted],
        )


_STEPS: Final = tuple(StepRow.__dataclass_fields__)
_LINES: Final = tuple(LogLine.__dataclass_fields__)
_ENDS: Final = tuple(RunEnd.__dataclass_fields__)


class Results:
    """Reports of workers."""

    def __init__(self, database: Database, derive: Derive) -> None:
        self._database = database
        self._derive = derive
        self._steps = insert_many(database, steps, _STEPS, _or_update)
        self._log_lines = insert_many(database, log_lines, _LINES, _or_nothing)
        names = ["id", "project_id", "type", "body", "inserted_at"]
        self._dataclips = insert_many(database, dataclips, names, _or_nothing)

    def write(self, token: str, report: Report) -> set[str]:
        """Write a report in one transaction; the runs in it that the token does not hold, of which nothing is written.

        To write the same again is safe: what was written the first time is not held any more, or is there already."""
        named = report.runs
        if not named:
            return set()
        ended = {end.id for end in report.ends}
        with self._database.write() as connection:
            at = self._database.micros(connection)
            changed = self._end(connection, token, report.ends, at)
            changed += self._touch(connection, token, report, named - ended, at)
            held = {change.run for change in changed}
            part = report if held == named else report.only(held)
            self._insert(connection, part)
            derive_orders(self._database, connection, self._derive, changed, at)
        return named - held

    def give_back(self, token: str, ids: Collection[str]) -> set[str]:
        """Make runs available again of which nothing was executed, as if they had never been claimed; those that the
        token held."""
        with self._database.write() as connection:
            at = self._database.micros(connection)
            unclaimed = dict.fromkeys(("worker_name", "claimed_at", "heartbeat_at", "started_at"))
            statement = (
                sa.update(runs)
                .where(among(self._database, runs.c.id, list(ids)), sa.text(_HELD))
                .values(state="available", updated_at=at, **unclaimed)
                .returning(runs.c.id, runs.c.work_order_id)
            )
            found = connection.execute(statement, {"token": token}).all()
            changed = [Changed(row.id, row.work_order_id, "available") for row in found]
            derive_orders(self._database, connection, self._derive, changed, at)
        return {change.run for change in changed}

    def heartbeat(self, token: str) -> set[str]:
        """Write that the holder of the token is alive; the runs that it holds."""
        with self._database.write() as connection:
            at = self._database.micros(connection)
            statement = sa.update(runs).where(sa.text(_HELD)).values(heartbeat_at=at).returning(runs.c.id)
            return set(connection.scalars(statement, {"token": token}))

    def _end(self, connection: sa.Connection, token: str, ends: Sequence[RunEnd], at: int) -> list[Changed]:
        if not ends:
            return []
        given = {
            "state": sa.Text(),
            "error_type": sa.Text(),
            "final_dataclip_id": runs.c.id.type,
            "started_at": sa.BigInteger(),
            "finished_at": sa.BigInteger(),
        }
        rows = [_plain(end, _ENDS) for end in ends]
        return self._update(connection, token, rows, given, lambda value: {**value, "updated_at": at})

    def _touch(
        self, connection: sa.Connection, token: str, report: Report, running: set[str], at: int
    ) -> list[Changed]:
        """Runs that go on: they are begun, whatever of them is reported."""
        if not running:
            return []
        begun = {row.run_id: row.started_at for row in reversed(report.steps)} | report.starts
        rows = [{"id": run, "started_at": begun.get(run, at)} for run in running]
        return self._update(
            connection,
            token,
            rows,
            {"started_at": sa.BigInteger()},
            lambda value: {
                "state": "started",
                "started_at": sa.func.coalesce(runs.c.started_at, value["started_at"]),
                "heartbeat_at": at,
                "updated_at": at,
            },
        )

    def _update(
        self,
        connection: sa.Connection,
        token: str,
        rows: list[dict[str, Any]],
        given: dict[str, Any],
        values: Callable[[dict[str, sa.ColumnElement[Any]]], dict[str, Any]],
    ) -> list[Changed]:
        """Change many runs, each to values of its own, where the token holds them."""
        source = self._source({"id": runs.c.id.type, **given})
        new = values({name: source.c[name] for name in given})
        statement = (
            sa.update(runs)
            .values(new)
            # I10: whoever lost the run to another finds it no longer held, and changes nothing.
            .where(runs.c.id == source.c.id, sa.text(_HELD))
            .returning(runs.c.id, runs.c.work_order_id, runs.c.state)
        )
        found = connection.execute(statement, {"token": token, "rows": json.dumps(rows)})
        return [Changed(row.id, row.work_order_id, row.state) for row in found]

    def _source(self, given: dict[str, Any]) -> Any:
        """The rows of the parameter `rows`, a JSON text, as a table."""
        text = sa.bindparam("rows", type_=sa.Text())
        if self._database.is_sqlite:
            each = sa.func.json_each(text).table_valued("value")
            parts = [
                sa.func.json_extract(each.c.value, f"$.{name}", type_=kind).label(name) for name, kind in given.items()
            ]
            return sa.select(*parts).subquery("given")
        columns = [sa.column(name, kind) for name, kind in given.items()]
        return (
            sa.func.json_to_recordset(sa.cast(text, sa.JSON()))
            .table_valued(*columns)
            .render_derived("given", with_types=True)
        )

    def _insert(self, connection: sa.Connection, report: Report) -> None:
        made = [
            {
                "id": clip.id,
                "project_id": clip.project_id,
                "type": "step_result",
                "body": clip.body,
                "inserted_at": clip.inserted_at,
            }
            for clip in report.dataclips
        ]
        self._dataclips.run(connection, made)
        # A step that began and ended since the last report is one row.
        self._steps.run(connection, [_plain(row, _STEPS) for row in {row.id: row for row in report.steps}.values()])
        self._log_lines.run(connection, [_plain(row, _LINES) for row in report.log_lines])


def _plain(row: object, names: Sequence[str]) -> dict[str, Any]:
    # `asdict` copies every value, which takes as long as the database takes.
    return {name: getattr(row, name) for name in names}


def _or_nothing(statement: Insert) -> sa.sql.dml.Insert:
    return statement.on_conflict_do_nothing(index_elements=["id"])


def _or_update(statement: Insert) -> sa.sql.dml.Insert:
    names = ("output_dataclip_id", "exit_reason", "error_type", "finished_at")
    return statement.on_conflict_do_update(
        index_elements=["id"], set_={name: statement.excluded[name] for name in names}
    )
