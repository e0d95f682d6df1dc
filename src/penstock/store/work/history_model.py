"""What the repository of history takes and gives. Times are epoch microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from penstock.store.work.states import RunState, WorkOrderState

Order = Literal["created", "activity"]
SearchField = Literal["id", "body", "name", "log"]

FIELDS: Final[frozenset[SearchField]] = frozenset({"id", "body", "name", "log"})
TERM_CAP: Final = 50
"""Work orders that are counted where they must be searched for: more are `50+`."""


class WorkOrderCursor(NamedTuple):
    """Where a list goes on: the last row seen, by what the list is ordered by."""

    at: int
    id: str


class Count(NamedTuple):
    """How many there are; more than that where it is capped."""

    number: int
    is_capped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrderFilter:
    """Which work orders; what is None or empty does not matter."""

    project_id: str | None = None
    workflow_id: str | None = None
    trigger_id: str | None = None
    states: tuple[WorkOrderState, ...] = ()
    received_after: int | None = None
    """At this time or later."""
    received_before: int | None = None
    """Before this time."""
    active_after: int | None = None
    active_before: int | None = None
    ids: tuple[str, ...] = ()
    term: str | None = None
    """Words, each of which a word of the body, the dataclip's name or a log line begins with; or the beginning of the
    id of a work order, run or step."""
    fields: frozenset[SearchField] = FIELDS
    """Where the term is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    id: str
    work_order_id: str
    project_id: str
    workflow_id: str
    snapshot_id: str
    starting_step: str | None
    starting_trigger_id: str | None
    created_by: str | None
    dataclip_id: str | None
    final_dataclip_id: str | None
    state: RunState
    error_type: str | None
    priority: int
    queue: str
    order_key: str | None
    worker_name: str | None
    heartbeat_at: int | None
    options: dict[str, Any]
    claimed_at: int | None
    started_at: int | None
    finished_at: int | None
    inserted_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrderRow:
    id: str
    project_id: str
    workflow_id: str
    workflow: str
    """Its name."""
    workflow_deleted: bool
    snapshot_id: str
    trigger_id: str | None
    dataclip_id: str | None
    state: WorkOrderState
    last_activity: int
    inserted_at: int
    updated_at: int
    runs: tuple[RunRow, ...] = ()
    """Oldest first."""

    def cursor(self, order: Order = "created") -> WorkOrderCursor:
        """Given as `after`, lists what comes behind this row."""
        return WorkOrderCursor(self.inserted_at if order == "created" else self.last_activity, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataclipRow:
    id: str
    project_id: str
    type: str
    name: str | None
    body: str | None
    """JSON; None where it was wiped."""
    request: str | None
    raw: bytes | None
    """The value of a message as it was read, where the body does not say it."""
    trigger_id: str | None
    topic: str | None
    topic_id: str | None
    partition: int | None
    offset: int | None
    wiped_at: int | None
    inserted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    id: str
    run_id: str
    name: str
    snapshot_id: str
    input_dataclip_id: str | None
    output_dataclip_id: str | None
    exit_reason: str | None
    error_type: str | None
    started_at: int
    finished_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    id: str
    run_id: str
    step_id: str | None
    source: str
    level: str
    message: str
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    run: RunRow
    steps: tuple[StepRow, ...] = ()
    logs: tuple[LogRow, ...] = ()
    has_more_logs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrderDetail:
    """A work order with all that is known of it."""

    row: WorkOrderRow
    runs: tuple[RunDetail, ...] = ()
    dataclips: dict[str, DataclipRow] = field(default_factory=dict)
    """By id: the inputs and outputs of runs and steps; those that were deleted are missing."""
