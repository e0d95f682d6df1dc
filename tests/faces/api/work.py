"""A workflow with a trigger and a work order that failed, as intake and runs leave them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import sqlalchemy as sa

from penstock.core.ids import ids_at, new_id
from penstock.store import Store
from penstock.store.work.model import TriggerRow, WorkflowRow
from penstock.store.workflow_tables import dataclips, log_lines, runs, steps, work_orders

STEPS = [
    {"name": "check", "kind": "http", "config": {"url": "https://93.184.216.34/check"}},
    {"name": "send", "kind": "http", "config": {"url": "https://93.184.216.34/send"}},
]
DEFINITION = {
    "steps": STEPS,
    "edges": [
        {"from": "kafka", "to": "check", "when": "always"},
        {"from": "check", "to": "send", "when": "success"},
    ],
    "triggers": ["kafka"],
}
KAFKA = {
    "hosts": [["localhost", "9"]],
    "topics": ["labs"],
    "initial_offset_reset_policy": "earliest",
    "connect_timeout": 1,
    "ssl": False,
}


@dataclass
class Work:
    """Ids of all of it."""

    project: str
    workflow: str
    trigger: str
    work_order: str = ""
    run: str = ""
    step: str = ""
    dataclip: str = ""


def make_work(store: Store, project: str, name: str = "labs") -> Work:
    """In a project that is there."""
    trigger = TriggerRow(
        id=new_id(), workflow_id="", name="kafka", kafka_configuration=KAFKA | {"group_id": f"lightning-{name}"}
    )
    row = store.workflows.apply(WorkflowRow(id=new_id(), project_id=project, name=name), DEFINITION, "1", [trigger])
    work = Work(project, row.id, trigger.id)
    add_order(store, work)
    return work


def add_order(store: Store, work: Work, state: str = "failed", *, body: str = '{"patient": "p-88"}') -> str:
    """One more work order, with a run, a step and a log line; the work remembers the newest."""
    at = time.time_ns() // 1_000 - 60_000_000  # what is a moment old is searchable
    clip, order, run, step, line = ids_at(at, 5)
    row = store.workflows.by_id(work.workflow)
    assert row is not None
    mine = {"project_id": work.project, "workflow_id": row.id, "snapshot_id": row.snapshot_id}
    times = {"inserted_at": at, "updated_at": at}
    request = {"topic": "labs", "partition": 4, "offset": at, "key": "p-88", "ts": 1, "headers": []}
    with store.database.write() as connection:
        given = {"id": clip, "project_id": work.project, "type": "kafka", "topic": "labs", "body": body}
        connection.execute(sa.insert(dataclips), given | {"request": json.dumps(request), "inserted_at": at})
        made = {"id": order, "dataclip_id": clip, "state": state, "last_activity": at, "trigger_id": work.trigger}
        connection.execute(sa.insert(work_orders), mine | times | made)
        run_state = {"pending": "available", "running": "started"}.get(state, state)
        made = {"id": run, "work_order_id": order, "dataclip_id": clip, "state": run_state, "options": {}}
        ended = {} if run_state == "available" else {"started_at": at, "finished_at": at + 250_000}
        connection.execute(sa.insert(runs), mine | times | made | ended)
        done = {"id": step, "run_id": run, "name": "check", "snapshot_id": row.snapshot_id, "started_at": at}
        connection.execute(sa.insert(steps), done | {"input_dataclip_id": clip, "exit_reason": "fail"})
        said = {"id": line, "run_id": run, "step_id": step, "source": "job", "level": "error"}
        connection.execute(sa.insert(log_lines), said | {"message": "<b>no</b> answer", "timestamp": at})
    work.work_order, work.run, work.step, work.dataclip = order, run, step, clip
    return order
