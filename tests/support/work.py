"""Workflows and work orders put straight into a store."""

from __future__ import annotations

import json
import time
from typing import Any

import sqlalchemy as sa

from penstock.core.ids import new_id
from penstock.store.database import Database
from penstock.store.workflow_tables import (
    dataclips,
    log_lines,
    projects,
    runs,
    snapshots,
    steps,
    work_orders,
    workflows,
)


def now() -> int:
    return time.time_ns() // 1_000


class Work:
    """Makes rows and reads them back."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def project(self, name: str = "clinic", concurrency: int | None = None) -> str:
        row = {"id": new_id(), "name": name, "concurrency": concurrency, "inserted_at": now(), "updated_at": now()}
        self._insert(projects, [row])
        return str(row["id"])

    def workflow(
        self, project: str, name: str = "labs", *, concurrency: int | None = None, definition: Any = None
    ) -> tuple[str, str, str]:
        """Project, workflow, snapshot."""
        flow, snapshot = new_id(), new_id()
        times = {"inserted_at": now(), "updated_at": now()}
        row = {"id": flow, "project_id": project, "name": name, "concurrency": concurrency, "snapshot_id": snapshot}
        self._insert(workflows, [row | times])
        known = {"id": snapshot, "workflow_id": flow, "version": snapshot[-12:], "inserted_at": now()}
        self._insert(snapshots, [known | {"definition": definition or {}}])
        return project, flow, snapshot

    def order(self, flow: tuple[str, str, str], body: Any = None, **of_run: Any) -> str:
        """A work order with a run; the run's id."""
        return self.orders(flow, [body], **of_run)[0]

    def orders(self, flow: tuple[str, str, str], bodies: list[Any], **of_run: Any) -> list[str]:
        """Work orders as a trigger makes them, one per body."""
        project, workflow, snapshot = flow
        clips: list[dict[str, Any]] = []
        orders: list[dict[str, Any]] = []
        made: list[dict[str, Any]] = []
        for body in bodies:
            at, clip, order = now(), new_id(), new_id()
            clips.append(
                {
                    "id": clip,
                    "project_id": project,
                    "type": "kafka",
                    "body": json.dumps({} if body is None else body),
                    "request": json.dumps({"topic": "labs", "partition": 0, "offset": len(clips)}),
                    "inserted_at": at,
                }
            )
            of_workflow = {"project_id": project, "workflow_id": workflow, "snapshot_id": snapshot}
            times = {"inserted_at": at, "updated_at": at}
            order_row = {"id": order, "dataclip_id": clip, "state": "pending", "last_activity": at}
            orders.append(of_workflow | times | order_row)
            run_row = {"id": new_id(), "work_order_id": order, "dataclip_id": clip, "state": "available"}
            made.append(of_workflow | times | run_row | {"options": {}} | of_run)
        self._insert(dataclips, clips)
        self._insert(work_orders, orders)
        self._insert(runs, made)
        return [str(row["id"]) for row in made]

    def run(self, run: str) -> dict[str, Any]:
        return self._rows(runs, runs.c.id == run)[0]

    def state(self, run: str) -> tuple[str, str | None, str]:
        """State and error type of the run, state of its work order."""
        row = self.run(run)
        [order] = self._rows(work_orders, work_orders.c.id == row["work_order_id"])
        return row["state"], row["error_type"], order["state"]

    def states(self) -> dict[str, str]:
        return {row["id"]: row["state"] for row in self._rows(runs)}

    def runs_of(self, run: str) -> list[dict[str, Any]]:
        """All runs of the run's work order, the oldest first."""
        return self._rows(runs, runs.c.work_order_id == self.run(run)["work_order_id"], order=runs.c.id)

    def steps(self, run: str) -> list[dict[str, Any]]:
        return self._rows(steps, steps.c.run_id == run, order=steps.c.id)

    def logs(self, run: str) -> list[tuple[str, str]]:
        found = self._rows(log_lines, log_lines.c.run_id == run, order=log_lines.c.id)
        return [(row["level"], row["message"]) for row in found]

    def body(self, dataclip: str | None) -> Any:
        [row] = self._rows(dataclips, dataclips.c.id == dataclip)
        return json.loads(row["body"])

    def cancel(self, run: str) -> None:
        """As someone else does it, who does not hold the run."""
        with self.database.write() as connection:
            connection.execute(
                sa.update(runs).where(runs.c.id == run).values(state="cancelled", finished_at=now(), updated_at=now())
            )

    def _insert(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        with self.database.write() as connection:
            connection.execute(sa.insert(table), rows)

    def _rows(
        self, table: sa.Table, *which: sa.ColumnElement[bool], order: sa.Column[Any] | None = None
    ) -> list[dict[str, Any]]:
        chosen = sa.select(table).where(*which)
        with self.database.read() as connection:
            found = connection.execute(chosen if order is None else chosen.order_by(order))
            return [dict(row._mapping) for row in found]
