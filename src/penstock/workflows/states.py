"""The states of runs, the moves between them, and what they make of their work order: here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from penstock.core.errors import ConfigError
from penstock.store.work.states import (
    FINAL,
    RUN_STATES,
    UNFINISHED,
    WORK_ORDER_STATES,
    FinalState,
    RunState,
    WorkOrderState,
)

__all__ = [
    "ENDS",
    "FINAL",
    "LOST_AFTER_CLAIM",
    "LOST_AFTER_START",
    "MOVES",
    "RUN_STATES",
    "UNFINISHED",
    "UNKNOWN_REASON",
    "WORK_ORDER_STATES",
    "FinalState",
    "MoveRefused",
    "RunState",
    "WorkOrderState",
    "check_move",
    "derived",
    "final_of",
    "sources",
    "times",
]

MOVES: Final[dict[RunState, tuple[RunState, ...]]] = {
    "available": ("claimed", "cancelled"),
    "claimed": ("started", "available", *FINAL),
    "started": FINAL,
    **dict.fromkeys(FINAL, ()),
}
"""Where a run may go from each state; a claimed one becomes available again where nothing of it was executed."""

ENDS: Final[dict[str, FinalState]] = {
    "ok": "success",
    "success": "success",
    "fail": "failed",
    "crash": "crashed",
    "cancel": "cancelled",
    "kill": "killed",
    "exception": "exception",
    "lost": "lost",
}
"""The state that a run ends in, by the reason for which its last step ended."""

LOST_AFTER_CLAIM: Final = "LostAfterClaim"
LOST_AFTER_START: Final = "LostAfterStart"
UNKNOWN_REASON: Final = "UnknownReason"

_BUSIEST: Final[tuple[RunState, ...]] = ("started", "claimed", "available")


class MoveRefused(ConfigError):
    """A run cannot go from the state it is in to the one it should go to."""

    code = "run-state"


def sources(after: RunState) -> tuple[RunState, ...]:
    """States from which a run may go there: what the statement that moves it must ask for."""
    return tuple(before for before, reached in MOVES.items() if after in reached)


def times(after: RunState, now: int) -> dict[str, int]:
    """Columns that tell when a run came into a state; no move is without."""
    name = {"claimed": "claimed_at", "started": "started_at"}.get(after, "finished_at" if after in FINAL else None)
    return {"updated_at": now} | ({name: now} if name else {})


def check_move(before: RunState, after: RunState) -> None:
    """Raise `MoveRefused` unless a run may go from one state to the other."""
    if after not in MOVES[before]:
        raise MoveRefused(
            f"a run that is {before} cannot become {after}",
            received=after,
            allowed=list(MOVES[before]) or "nothing: it has ended",
            hint="retry its work order for a new run" if before in FINAL else None,
        )


def final_of(exit_reason: str) -> FinalState:
    """The state that a run ends in; a reason that nobody knows is our own fault, not the step's."""
    return ENDS.get(exit_reason, "exception")


def derived(changed: str, others: Iterable[str]) -> WorkOrderState:
    """The state of a work order: that of its busiest unfinished run, else of the run that has just changed.

    `others` are the states of its other runs; those that have ended do not count."""
    unfinished = set(others)
    if changed in UNFINISHED:
        unfinished.add(changed)
    busiest = next((state for state in _BUSIEST if state in unfinished), None)
    if busiest is None:
        return cast("WorkOrderState", changed)
    return "pending" if busiest == "available" else "running"
