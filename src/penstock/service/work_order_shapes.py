"""Work orders, runs, steps, dataclips and jobs as data: the shapes that programs rely on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from penstock.core.letter_json import bytes_as_json
from penstock.store import Store
from penstock.store.work.history_model import DataclipRow, LogRow, RunDetail, RunRow, StepRow, WorkOrderRow
from penstock.store.work.model import BulkJobRow

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Names:
    """What projects and triggers are called."""

    projects: dict[str, str]
    triggers: dict[str, str]

    @classmethod
    def of(cls, store: Store) -> Names:
        return cls(
            {row.id: row.name for row in store.projects.list()},
            {row.id: row.name for row in store.triggers.list(include_deleted=True)},
        )


def format_micros(micros: int | None) -> str | None:
    """ISO time in UTC, with microseconds."""
    if micros is None:
        return None
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def work_order_as_dict(row: WorkOrderRow, names: Names) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": row.state,
        "project": names.projects.get(row.project_id),
        "project_id": row.project_id,
        "workflow": row.workflow,
        "workflow_id": row.workflow_id,
        "workflow_deleted": row.workflow_deleted,
        "trigger": names.triggers.get(row.trigger_id or ""),
        "trigger_id": row.trigger_id,
        "snapshot_id": row.snapshot_id,
        "dataclip_id": row.dataclip_id,
        "inserted_at": format_micros(row.inserted_at),
        "last_activity": format_micros(row.last_activity),
        "runs": [run_as_dict(run) for run in row.runs],
    }


def run_as_dict(run: RunRow) -> dict[str, Any]:
    return {
        "id": run.id,
        "work_order_id": run.work_order_id,
        "state": run.state,
        "error_type": run.error_type,
        "starting_step": run.starting_step,
        "created_by": run.created_by,
        "snapshot_id": run.snapshot_id,
        "dataclip_id": run.dataclip_id,
        "final_dataclip_id": run.final_dataclip_id,
        "priority": "immediate" if run.priority == 0 else "normal",
        "queue": run.queue,
        "inserted_at": format_micros(run.inserted_at),
        "claimed_at": format_micros(run.claimed_at),
        "started_at": format_micros(run.started_at),
        "finished_at": format_micros(run.finished_at),
        "duration_ms": duration_ms(run.started_at, run.finished_at),
    }


def step_as_dict(step: StepRow) -> dict[str, Any]:
    return {
        "id": step.id,
        "run_id": step.run_id,
        "name": step.name,
        "exit_reason": step.exit_reason,
        "error_type": step.error_type,
        "snapshot_id": step.snapshot_id,
        "input_dataclip_id": step.input_dataclip_id,
        "output_dataclip_id": step.output_dataclip_id,
        "started_at": format_micros(step.started_at),
        "finished_at": format_micros(step.finished_at),
        "duration_ms": duration_ms(step.started_at, step.finished_at),
    }


def log_as_dict(line: LogRow) -> dict[str, Any]:
    return {
        "id": line.id,
        "run_id": line.run_id,
        "step_id": line.step_id,
        "timestamp": format_micros(line.timestamp),
        "level": line.level,
        "source": line.source,
        "message": line.message,
    }


def dataclip_as_dict(clip: DataclipRow) -> dict[str, Any]:
    return {
        "id": clip.id,
        "project_id": clip.project_id,
        "type": clip.type,
        "name": clip.name,
        "body": _json(clip.body),
        "request": _json(clip.request),
        "raw": bytes_as_json(clip.raw),
        "wiped_at": format_micros(clip.wiped_at),
        "inserted_at": format_micros(clip.inserted_at),
    }


def run_detail_as_dict(detail: RunDetail) -> dict[str, Any]:
    return run_as_dict(detail.run) | {
        "steps": [step_as_dict(step) for step in detail.steps],
        "logs": [log_as_dict(line) for line in detail.logs],
        "has_more_logs": detail.has_more_logs,
    }


def job_as_dict(job: BulkJobRow) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "total": job.total,
        "done": job.done,
        "skipped": job.skipped,
        "asked_by": job.asked_by,
        "inserted_at": format_micros(job.inserted_at),
        "updated_at": format_micros(job.updated_at),
    }


def duration_ms(started: int | None, finished: int | None) -> float | None:
    return None if started is None or finished is None else (finished - started) / 1_000


def total_duration_ms(runs: Iterable[RunRow]) -> float | None:
    """From the first start to the last end."""
    begun = [run.started_at for run in runs if run.started_at is not None]
    ended = [run.finished_at for run in runs if run.started_at is not None]
    if not begun or None in ended:
        return None
    return duration_ms(min(begun), max(end for end in ended if end is not None))


def _json(text: str | None) -> Any:
    """A body as the value that it is; one that cannot be read stays text."""
    if text is None:
        return None
    try:
        # Integers beyond 64 bits stay integers.
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
