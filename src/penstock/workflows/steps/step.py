"""What every kind of step has in common."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.core.deadline import Deadline
from penstock.workflows.failing import RunCancelled, StepKilled
from penstock.workflows.logs import StepLog

State = dict[str, Any]
"""A JSON object: what a step is given, and what it hands on."""


@dataclass(slots=True)
class StepContext:
    """What surrounds one call of a step."""

    log: StepLog
    deadline: Deadline
    """When it will be killed."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise if the step must not go on."""
        if self.cancelled.is_set():
            raise RunCancelled("the run was cancelled")
        if self.deadline.expired:
            raise StepKilled(
                "the step took longer than it may", hint="`timeout` of the step or the workflow says how long"
            )


class Step(ABC):
    """Made once per version of a workflow, called by many threads."""

    @abstractmethod
    def run(self, state: State, ctx: StepContext) -> Any:
        """The next state; None: it stays as it is."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of connections."""


ActOn = Callable[[State], None]
MakeAction = Callable[[str, dict[str, Any], str | None], tuple[ActOn, Callable[[], None]]]
"""Makes a registered action by type, config and folder: how it acts on a state, and how it is closed. Actions live in a
layer above this one."""
