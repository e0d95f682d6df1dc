"""Names of states, as they stand in the rows. What may follow on what is said in `workflows.states`."""

from __future__ import annotations

from typing import Final, Literal

FinalState = Literal["success", "failed", "crashed", "cancelled", "killed", "exception", "lost"]
RunState = Literal["available", "claimed", "started"] | FinalState
WorkOrderState = Literal["rejected", "pending", "running"] | FinalState

FINAL: Final[tuple[FinalState, ...]] = ("success", "failed", "crashed", "cancelled", "killed", "exception", "lost")
UNFINISHED: Final[tuple[RunState, ...]] = ("available", "claimed", "started")
RUN_STATES: Final[tuple[RunState, ...]] = (*UNFINISHED, *FINAL)
WORK_ORDER_STATES: Final[tuple[WorkOrderState, ...]] = ("rejected", "pending", "running", *FINAL)
ENDED: Final[tuple[WorkOrderState, ...]] = ("rejected", *FINAL)
"""States of work orders that nothing more happens to unless someone asks for it."""
