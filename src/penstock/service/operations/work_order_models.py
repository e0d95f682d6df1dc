"""Questions about work orders and runs, and answers, as data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.service.operations.models import Text, View
from penstock.store.work.history_model import Order as WorkOrderOrder
from penstock.store.work.history_model import SearchField
from penstock.store.work.states import RunState, WorkOrderState

__all__ = ["RunState", "WorkOrderOrder", "WorkOrderState"]

Kind = Literal["retry", "cancel"]


class WorkOrderQuery(BaseModel):
    """Which work orders; what is absent does not matter. Times are as 2026-01-01T00:00:00Z, a time ago like `2h`, or
    epoch milliseconds."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    project: Text | None = None
    """Name or id."""
    workflow: Text | None = None
    """Id, name, or `project/name`."""
    trigger: Text | None = None
    """Id."""
    state: list[WorkOrderState] = Field(default_factory=list, max_length=20)
    """Any of these."""
    received_after: Text | None = None
    """Received at this time or later."""
    received_before: Text | None = None
    active_after: Text | None = None
    """Something happened to it at this time or later."""
    active_before: Text | None = None
    search: Text | None = Field(default=None, min_length=1)
    """Words that begin words of the input, its name or the logs; or the beginning of an id."""
    within: list[SearchField] = Field(default_factory=list, max_length=10)
    """Where to search; absent: everywhere."""
    ids: list[Text] = Field(default_factory=list, max_length=1_000)
    """Only these."""
    any_time: bool = False
    """Not only those with activity within 30 days."""

    @property
    def is_empty(self) -> bool:
        given = self.model_dump(exclude_none=True, exclude={"any_time"})
        return not any(value for value in given.values())


class WorkOrderChoice(BaseModel):
    """Work orders by their ids, or by what they have in common."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={"examples": [{"filter": {"workflow": "labs", "state": ["failed"]}}]},
    )

    ids: list[Text] | None = Field(default=None, min_length=1, max_length=1_000)
    filter: WorkOrderQuery | None = None
    everything: bool = False
    """Wanted where the filter says nothing: all of the last 30 days is meant."""


class RunItem(View):
    """A run as lists show it."""

    id: str
    work_order_id: str
    state: RunState
    error_type: str | None = None
    starting_step: str | None = None
    """The step that it began at; null: those that follow the trigger."""
    created_by: str | None = None
    """Who asked for it; null: a message did."""
    priority: Literal["immediate", "normal"]
    queue: str
    snapshot_id: str
    """The version of the workflow."""
    dataclip_id: str | None = None
    """Its input."""
    final_dataclip_id: str | None = None
    """Its result."""
    inserted_at: str
    claimed_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    updated_at: str
    duration_ms: float | None = None


class StepView(View):
    """A step of a run."""

    id: str
    name: str
    exit_reason: str | None = None
    """`success`, `fail`, `crash`, `cancel`, `kill`, `exception` or `lost`; null: it is at work."""
    error_type: str | None = None
    input_dataclip_id: str | None = None
    output_dataclip_id: str | None = None
    started_at: str
    finished_at: str | None = None
    duration_ms: float | None = None


class LogView(View):
    """A line that a run wrote."""

    id: str
    step_id: str | None = None
    timestamp: str
    level: str
    source: str
    message: str


class DataclipView(View):
    """An input or a result."""

    id: str
    type: str
    name: str | None = None
    body: Any = None
    """Null where it was wiped, or is too large to be shown here."""
    request: Any = None
    """For messages: topic, partition, offset, key, time and headers."""
    wiped_at: str | None = None
    inserted_at: str
    cut: bool = False
    """The body is too large for this answer; asked for alone, it is whole."""
    masked: bool = False
    """Fields are not shown, by a rule of the installation."""


class RunDetail(RunItem):
    """A run with its steps and first log lines."""

    steps: list[StepView] = Field(default_factory=list)
    logs: list[LogView] = Field(default_factory=list)
    has_more_logs: bool = False


class RunPage(RunDetail):
    """A run with all that its page shows."""

    project: str | None = None
    project_id: str
    workflow: str
    workflow_id: str
    workflow_deleted: bool = False
    trigger: str | None = None
    dataclips: dict[str, DataclipView] = Field(default_factory=dict)
    """By id: inputs and results of the run and its steps."""


class WorkOrderBase(View):
    """What lists and details have in common."""

    id: str
    state: WorkOrderState
    project: str | None = None
    """Its name."""
    project_id: str
    workflow: str
    """Its name."""
    workflow_id: str
    workflow_deleted: bool = False
    trigger: str | None = None
    """Its name; null: the work order was made by hand, or by a pipeline."""
    trigger_id: str | None = None
    snapshot_id: str
    dataclip_id: str | None = None
    inserted_at: str
    last_activity: str
    updated_at: str
    duration_ms: float | None = None
    """From the first start to the last end; null: not all of it has ended."""


class WorkOrderItem(WorkOrderBase):
    """A work order as lists show it."""

    runs: list[RunItem] = Field(default_factory=list)
    """Oldest first."""


class WorkOrderDetail(WorkOrderBase):
    """A work order with all that is known of it."""

    runs: list[RunDetail] = Field(default_factory=list)
    dataclips: dict[str, DataclipView] = Field(default_factory=dict)
    """By id; those that were deleted are missing."""


class CountView(View):
    """How many there are."""

    number: int
    capped: bool
    """There are more than that."""


class RetryView(View):
    """A work order that runs again."""

    work_order: str
    run: str


class CancelView(View):
    """Runs that were taken back, or stopped."""

    work_order: str
    runs: list[str]


class WorkOrderPlan(View):
    """What a job would take."""

    work_orders: int


class WorkOrderJob(View):
    """A retry or cancellation of many work orders, in the background; or an export that was made."""

    id: str
    kind: Literal["retry", "cancel", "export"]
    state: Literal["waiting", "running", "done", "stopped"]
    total: int
    done: int
    skipped: int
    """Could not be retried: the input was wiped, or the workflow deleted; or had begun before they were cancelled."""
    by: str | None = None
    what: str
    project: str | None = None
    """Id of the project that it is of; null: of all."""
    asked_at: str
    updated_at: str
