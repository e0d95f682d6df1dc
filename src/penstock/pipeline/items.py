"""What travels along a pipeline's steps: events, and events that a step has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.core.dead_letter import Stage
from penstock.core.event import Event, RecordLike


@dataclass(slots=True)
class FailedItem:
    """An event that a stage before the action ended; it keeps its place in the order until it is settled."""

    record: RecordLike
    stage: Stage
    error: BaseException
    value: Any = None
    event: Event | None = None
    """What the failed step was given; None where there was no event yet."""
    step: int = 0
    """The failed step's place in the chain."""


Item = Event | FailedItem
