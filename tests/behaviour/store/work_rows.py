"""Work orders of any age and state, put into a store as intake and runs leave them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from penstock.core.ids import ids_at, new_id
from penstock.store import Store
from penstock.store.work.model import TriggerRow, WorkflowRow
from penstock.store.workflow_tables import dataclips, log_lines, runs, steps, work_orders

SECOND = 1_000_000
DAY = 86_400 * SECOND


def now() -> int:
    return time.time_ns() // 1_000


class Rows:
    """Two projects with workflows and triggers, and what happens in them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._offsets = itertools.count()
        self.project = store.projects.save(new_id(), "clinic").id
        self.other = store.projects.save(new_id(), "other").id
        self.flows = [self._flow(self.project, "lab"), self._flow(self.project, "ward"), self._flow(self.other, "shop")]
        self.triggers = {row.workflow_id: row.id for row in store.triggers.list()}

    def _flow(self, project: str, name: str) -> WorkflowRow:
        given = WorkflowRow(id=new_id(), project_id=project, name=name)
        trigger = TriggerRow(id=new_id(), workflow_id="", name="kafka")
        return self.store.workflows.apply(given, {}, "v1", [trigger])

    def order(
        self,
        flow: int = 0,
        *,
        state: str = "success",
        at: int | None = None,
        active: int | None = None,
        body: str | None = '{"patient": "Anna"}',
        name: str | None = None,
        manual: bool = False,
        logs: Sequence[str] = (),
    ) -> str:
        """One work order with a dataclip, a run, a step and its output, and log lines."""
        received = now() - 10 * SECOND if at is None else at
        order, clip, run, step, output, *lines = ids_at(received, 5 + len(logs))
        workflow = self.flows[flow]
        trigger = None if manual else self.triggers[workflow.id]
        ids = {"project_id": workflow.project_id, "workflow_id": workflow.id, "snapshot_id": workflow.snapshot_id}
        times = {"inserted_at": received, "updated_at": received}
        place = {"trigger_id": trigger, "topic": "t", "topic_id": "T", "partition": 0, "offset": next(self._offsets)}
        empty = dict.fromkeys(("trigger_id", "topic", "topic_id", "partition", "offset", "request", "name"))
        kind = "saved_input" if manual else "kafka"
        clips: list[dict[str, Any]] = [
            {"id": clip, "type": kind, "body": body, **(empty if manual else place), "name": name, "request": "{}"},
            {"id": output, "type": "step_result", "body": '{"secret": "result"}', **empty},
        ]
        owned = {"project_id": workflow.project_id, "inserted_at": received}
        work_order = {"id": order, "trigger_id": trigger, "dataclip_id": clip, "state": state, **ids, **times}
        known = {"available": "pending", "started": "running"}
        run_state = next((before for before, after in known.items() if after == state), state)
        with self.store.database.write() as connection:
            connection.execute(sa.insert(dataclips), [row | owned for row in clips])
            connection.execute(sa.insert(work_orders), work_order | {"last_activity": active or received})
            if state != "rejected":
                made = {"id": run, "work_order_id": order, "dataclip_id": clip, "state": run_state, **ids, **times}
                connection.execute(sa.insert(runs), made | {"starting_trigger_id": trigger, "options": {}})
                done = {"id": step, "run_id": run, "name": "first", "snapshot_id": workflow.snapshot_id}
                clips_of_step = {"input_dataclip_id": clip, "output_dataclip_id": output}
                connection.execute(sa.insert(steps), done | clips_of_step | {"started_at": received})
            for line, text in zip(lines, logs, strict=True):
                row = {"id": line, "run_id": run, "step_id": step, "source": "job", "level": "info"}
                connection.execute(sa.insert(log_lines), row | {"message": text, "timestamp": received})
        return order

    def index(self) -> None:
        while self.store.search.index_some(100):
            pass

    def count(self, table: sa.Table) -> int:
        with self.store.database.read() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
