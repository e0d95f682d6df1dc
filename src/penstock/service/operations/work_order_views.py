"""Makes answers of rows of the history; what rules mask stays hidden in inputs and results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.service.masking import Masking, Words
from penstock.service.operations.work_order_models import (
    DataclipView,
    LogView,
    RunDetail,
    RunItem,
    StepView,
    WorkOrderBase,
    WorkOrderDetail,
    WorkOrderItem,
    WorkOrderJob,
)
from penstock.service.work_order_shapes import (
    Names,
    dataclip_as_dict,
    format_micros,
    job_as_dict,
    log_as_dict,
    run_as_dict,
    step_as_dict,
    total_duration_ms,
    work_order_as_dict,
)
from penstock.store.work import history_model as rows
from penstock.store.work.model import BulkJobRow

_SHOWN: Final = 100_000
"""Characters of a body that are part of a larger answer; more are given when it is asked for alone."""


def item_of(row: rows.WorkOrderRow, names: Names) -> WorkOrderItem:
    return WorkOrderItem(**_base(row, names), runs=[run_of(run) for run in row.runs])


def detail_of(found: rows.WorkOrderDetail, names: Names, masking: Masking) -> WorkOrderDetail:
    hiding = Hiding.of(found, masking)
    return WorkOrderDetail(
        **_base(found.row, names),
        runs=[run_detail_of(detail, hiding) for detail in found.runs],
        dataclips={clip: hiding.view(row) for clip, row in found.dataclips.items()},
    )


def run_of(run: rows.RunRow) -> RunItem:
    return RunItem(**_run(run))


def run_detail_of(detail: rows.RunDetail, hiding: Hiding) -> RunDetail:
    return RunDetail(
        **_run(detail.run),
        steps=[StepView(**_only(StepView, step_as_dict(step))) for step in detail.steps],
        logs=logs_of(detail.logs, hiding.words),
        has_more_logs=detail.has_more_logs,
    )


def logs_of(lines: Iterable[rows.LogRow], words: Words) -> list[LogView]:
    return [LogView(**_only(LogView, log_as_dict(line)) | {"message": words(line.message)}) for line in lines]


def job_of(job: BulkJobRow) -> WorkOrderJob:
    which = job.request.get("filter", {})
    return WorkOrderJob(
        **_only(WorkOrderJob, job_as_dict(job)),
        by=job.asked_by,
        what=_words(job, which),
        project=which.get("project_id"),
        asked_at=str(format_micros(job.inserted_at)),
    )


class Hiding:
    """Dataclips and log lines of one work order, as rules for the topic of its message let them be seen.

    What steps made of a message may hold the same fields, at the top of their state or below `data`."""

    def __init__(self, topic: str | None, body: str | None, masking: Masking) -> None:
        self._topic = topic if topic is not None and masking.applies(topic) else None
        self._masking = masking
        # Of a message that was not kept nobody knows what to look for in texts about it.
        self.words: Words = masking.words(topic, (body or "").encode()) if topic is not None else lambda text: text

    @classmethod
    def of(cls, found: rows.WorkOrderDetail, masking: Masking) -> Hiding:
        clip = found.dataclips.get(found.row.dataclip_id or "")
        return cls(clip.topic, clip.body, masking) if clip else cls(None, None, masking)

    def view(self, clip: rows.DataclipRow, *, whole: bool = False) -> DataclipView:
        cut = not whole and len(clip.body or "") > _SHOWN
        data = _only(DataclipView, dataclip_as_dict(clip))
        if cut:
            data["body"] = None
        elif self._topic is not None:
            data["body"] = self._hidden(self._topic, data["body"])
        return DataclipView(**data, cut=cut, masked=self._topic is not None)

    def _hidden(self, topic: str, body: Any) -> Any:
        body = self._masking.value(topic, body)
        if isinstance(body, dict) and "data" in body:
            body = body | {"data": self._masking.value(topic, body["data"])}
        return self._scrubbed(body)

    def _scrubbed(self, body: Any) -> Any:
        """What steps wrote elsewhere, their errors for instance."""
        if isinstance(body, dict):
            return {key: self._scrubbed(item) for key, item in body.items()}
        if isinstance(body, list):
            return [self._scrubbed(item) for item in body]
        return self.words(body) if isinstance(body, str) else body


def _base(row: rows.WorkOrderRow, names: Names) -> dict[str, Any]:
    data = work_order_as_dict(row, names) | {"updated_at": format_micros(row.updated_at)}
    return _only(WorkOrderBase, data) | {"duration_ms": total_duration_ms(row.runs)}


def _run(run: rows.RunRow) -> dict[str, Any]:
    return _only(RunItem, run_as_dict(run) | {"updated_at": format_micros(run.updated_at)})


def _only(cls: Any, data: dict[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in cls.model_fields if name in data}


def _words(job: BulkJobRow, which: dict[str, Any]) -> str:
    """What the job was asked to take, for people."""
    given = {name: value for name, value in which.items() if value and name != "fields"}
    told = []
    for name, value in given.items():
        if name.endswith(("_after", "_before")):
            told.append(f"{name}={format_micros(value)}")
        elif isinstance(value, (list, tuple)):
            told.append(f"{name}={', '.join(map(str, value[:10]))}{' …' if len(value) > 10 else ''}")
        else:
            told.append(f"{name}={value}")
    if step := job.request.get("step"):
        told.append(f"from step {step}")
    return ", ".join(told)
