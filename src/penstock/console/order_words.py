"""Work orders, runs and steps as pages show them."""

from __future__ import annotations

from typing import Any, Final

from penstock.console import words
from penstock.console.parts import TONES
from penstock.console.tables import Column, cell
from penstock.service.operations.work_order_models import RunDetail, RunItem, StepView, WorkOrderItem

STATES: Final = (
    "pending",
    "running",
    "success",
    "failed",
    "crashed",
    "killed",
    "exception",
    "lost",
    "cancelled",
    "rejected",
)
ENDED: Final = frozenset(STATES) - {"pending", "running"}
_NAMES: Final = {"pending": "Enqueued", "available": "Enqueued"}
_EXITS: Final = {"success": "good", "cancel": "rest", None: "calm"}
"""How loud the end of a step is; every other end is bad."""
STEPS: Final = (
    Column("step", "Step", lead=True),
    Column("exit", "Ended", "chip"),
    Column("when", "Began"),
    Column("took", "Duration", "number"),
    Column("acts", "", "acts"),
)
RERUN: Final = "Rerun from here"


def state_name(state: str) -> str:
    """As Lightning's users know it."""
    return _NAMES.get(state, state.capitalize())


def state_tone(state: str) -> str:
    # What runs has not gone well yet.
    return "calm" if state == "running" else TONES.get(state, "rest")


def exit_tone(reason: str | None) -> str:
    return _EXITS.get(reason, "bad")


def short_id(identifier: str) -> str:
    """Enough of an id to know it again: its first half is the time, which neighbours share."""
    return f"{identifier[:8]}…{identifier[-4:]}"


def order_url(identifier: str) -> str:
    return f"/work-orders/{identifier}"


def run_url(identifier: str) -> str:
    return f"/runs/{identifier}"


def workflow_url(identifier: str) -> str:
    return f"/workflows/{identifier}"


def order_row(order: WorkOrderItem) -> dict[str, Any]:
    """A line of a list."""
    last = order.runs[-1] if order.runs else None
    return {
        "id": order.id,
        "called": short_id(order.id),
        "order": short_id(order.id),
        "order_url": order_url(order.id),
        "workflow": cell(order.workflow),
        "workflow_url": None if order.workflow_deleted else workflow_url(order.workflow_id),
        "workflow_why": "deleted" if order.workflow_deleted else None,
        "input": short_id(order.dataclip_id) if order.dataclip_id else "deleted",
        "input_url": order_url(order.id) if order.dataclip_id else None,
        "input_why": cell(order.trigger or (last.created_by if last else None) or "by hand"),
        "created": order.inserted_at,
        "created_text": words.moment_of(order.inserted_at),
        "activity": order.last_activity,
        "activity_text": words.ago_of(order.last_activity),
        "took": -1.0 if order.duration_ms is None else order.duration_ms,
        "took_text": words.millis(order.duration_ms),
        "state": state_name(order.state),
        "state_tone": state_tone(order.state),
        "state_why": cell(last.error_type) if last and last.error_type else None,
        "runs": len(order.runs),
        "changed": order.last_activity,
    }


def run_row(run: RunItem) -> dict[str, Any]:
    """A run within an order."""
    began = f"from {cell(run.starting_step)}" if run.starting_step else "from the start"
    by = f", by {cell(run.created_by)}" if run.created_by else ""
    return {
        "id": run.id,
        "run": short_id(run.id),
        "run_url": run_url(run.id),
        "state": state_name(run.state),
        "state_tone": state_tone(run.state),
        "state_why": cell(run.error_type) if run.error_type else None,
        "began": f"{began}{by}",
        "when": words.moment_of(run.started_at or run.inserted_at),
        "took": words.millis(run.duration_ms),
    }


def step_row(step: StepView) -> dict[str, Any]:
    return {
        "id": step.id,
        "step": cell(step.name),
        "exit": step.exit_reason or "at work",
        "exit_tone": exit_tone(step.exit_reason),
        "exit_why": cell(step.error_type) if step.error_type else None,
        "when": words.moment_of(step.started_at),
        "took": words.millis(step.duration_ms),
    }


def opened_row(run: RunDetail, *, may_rerun: bool) -> dict[str, Any]:
    """A run with its steps, as it is shown below an order that was opened."""
    ended = run.finished_at is not None
    steps = [step_row(step) | {"name": step.name, "again": may_rerun and ended} for step in run.steps]
    return run_row(run) | {"steps": steps}
