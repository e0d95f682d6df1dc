"""Workflows, triggers, work orders and runs as an operator may find them; some of what they hold is hostile."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable

from penstock.config.settings import Settings
from penstock.config.workflow import WorkflowSpec
from penstock.core.ids import new_id
from penstock.service.bulk_jobs import new_worker, work_on_next
from penstock.service.secrets import SecretBox
from penstock.service.workflows import apply_workflow
from penstock.store import Store, StoreUnavailable
from penstock.store.work.claims import Claim, Claims
from penstock.store.work.history_model import WorkOrderFilter
from penstock.store.work.results import LogLine, Report, Results, RunEnd, StepResult, StepRow
from penstock.workflows.states import derived
from tests.faces.console.seeding import BIDI, MARKUP
from tests.support.waiting import until

SECRET = "correct horse battery"
_WORKER = "plant-1-worker"
_SECOND = 1_000_000

LAB = {
    "project": "clinic",
    "name": "Lab results",
    "triggers": [
        {
            "name": "lab-topic",
            "enabled": False,
            "kafka_configuration": {
                "hosts": [["127.0.0.1", "1"]],
                "topics": ["lab-results"],
                "initial_offset_reset_policy": "earliest",
                "connect_timeout": 2,
                "sasl": "plain",
                "username": "penstock",
                "password": SECRET,
            },
        }
    ],
    "steps": [
        {"name": "check", "python": "lab:check"},
        {"name": "book", "http": "https://clinic.example/api/results"},
        {"name": "tell", "command": ["mail", "lab@clinic.example"]},
        {"name": "archive", "action": "file", "config": {"path": "lab.jsonl"}},
    ],
    "edges": [
        {"from": "check", "to": "book", "when": "success"},
        {"from": "check", "to": "tell", "when": "failure"},
        {"from": "book", "to": "archive", "when": "state.data.urgent == true"},
    ],
}
WARD = {"project": "clinic", "name": "Ward visits", "steps": [{"name": "count", "python": "ward:count"}]}


def seed_work(store: Store, settings: Settings) -> None:
    """Two workflows; of the first, work orders that went well, failed, wait, and one whose texts are hostile."""
    box = SecretBox.of(store, settings)
    lab = apply_workflow(store, box, WorkflowSpec.model_validate(LAB)).workflow.id
    ward = apply_workflow(store, box, WorkflowSpec.model_validate(WARD)).workflow.id
    bodies = [{"data": {"patient": f"p-{number}", "urgent": number % 2 == 0}} for number in range(1, 15)]
    bodies.append({"data": {"patient": "p-99", "note": MARKUP, "name": BIDI}})
    for body in bodies:
        store.orders.create(lab, body=json.dumps(body), name="by hand")
    _execute(store)
    for number in range(3):
        store.orders.create(ward, body=json.dumps({"data": {"bed": number}}), by="otto@example.org")
    until(lambda: _indexed(store), 30, "texts are not searchable", every_s=0.2)


def _indexed(store: Store) -> bool:
    """What is a second old can be found: inputs and log lines each have a pass of their own."""
    store.search.index_some()
    logged = store.history.list(WorkOrderFilter(term="onerror", fields=frozenset({"log"})))
    return len(logged) == 1 and store.search.seconds_behind() == 0


def _execute(store: Store) -> None:
    """Run what waits: two of three succeed, the others fail at their first step."""
    claims, results = Claims(store.database, derived), Results(store.database, derived)
    report, at = Report(), time.time_ns() // 1_000
    for number, claim in enumerate(claims.claim(_WORKER, 50)):
        hostile = "onerror" in (claim.body or "")
        _report(report, claim, at, fails=hostile or number % 3 == 2, log=MARKUP if hostile else "amount is no number")
    lost = results.write(_WORKER, report)
    assert not lost


def _report(report: Report, claim: Claim, at: int, *, fails: bool, log: str) -> None:
    names = ["check", "tell"] if fails else ["check", "book"]
    given, output = claim.dataclip_id, None
    for index, name in enumerate(names):
        step, output = new_id(), new_id()
        begun = at + index * _SECOND
        failed = fails and index == 0
        body = json.dumps({"data": {"step": name}})
        report.dataclips.append(
            StepResult(id=output, run_id=claim.id, project_id=claim.project_id, body=body, inserted_at=begun)
        )
        report.steps.append(
            StepRow(
                id=step,
                run_id=claim.id,
                name=name,
                snapshot_id=claim.snapshot_id,
                input_dataclip_id=given,
                output_dataclip_id=output,
                exit_reason="fail" if failed else "success",
                error_type="ValueError" if failed else None,
                started_at=begun,
                finished_at=begun + _SECOND // 2,
            )
        )
        lines = [("info", f"{name} begins"), ("error", log)] if failed else [("info", f"{name} is done")]
        report.log_lines += _lines(claim.id, step, begun, lines)
        given = output
    report.ends.append(
        RunEnd(
            id=claim.id,
            state="failed" if fails else "success",
            error_type="ValueError" if fails else None,
            final_dataclip_id=output,
            started_at=at,
            finished_at=at + 2 * _SECOND,
        )
    )


def _lines(run: str, step: str, at: int, lines: Iterable[tuple[str, str]]) -> list[LogLine]:
    return [
        LogLine(id=new_id(), run_id=run, step_id=step, source="job", level=level, message=text, timestamp=at + index)
        for index, (level, text) in enumerate(lines)
    ]


class JobHand(threading.Thread):
    """Does bulk jobs, as an instance does."""

    def __init__(self, store: Store) -> None:
        super().__init__(name="jobs", daemon=True)
        self._store = store
        self._over = threading.Event()

    def run(self) -> None:
        worker = new_worker()
        while not self._over.wait(0.3):
            with contextlib.suppress(StoreUnavailable):
                work_on_next(self._store, worker, lambda: not self._over.is_set())

    def stop(self) -> None:
        self._over.set()
        self.join(5)
