"""A run as whoever executes it sees it: what is to be done, who takes it down, and how it can be ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import orjson

from penstock.core.deadline import Deadline
from penstock.store.work.results import LogLine, RunEnd, StepResult, StepRow
from penstock.workflows.steps.step import State

Reason = Literal["success", "fail", "crash", "cancel", "kill", "exception"]
"""Why a step ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """All that is to be known of a run to execute it."""

    id: str
    project_id: str
    snapshot_id: str
    starting_step: str | None
    trigger: str | None
    """Name of the trigger that it came from."""
    dataclip_id: str | None
    input_type: str | None
    """Type of the dataclip; None: there is none."""
    body: str | None
    request: str | None
    timeout: float
    """Seconds."""
    save_dataclips: bool = True
    logs: bool = True

    def state(self) -> State:
        """What the first step is given."""
        if self.input_type is None:
            return {}
        body = orjson.loads(self.body or "null")
        if self.input_type in ("kafka", "http_request"):
            return {"data": body, "request": orjson.loads(self.request or "null")}
        return body if isinstance(body, dict) else {"data": body}


class Recorder(Protocol):
    """Takes down what happens to a run."""

    def step(self, row: StepRow) -> None: ...
    def result(self, clip: StepResult) -> None: ...
    def line(self, line: LogLine) -> None: ...


class Execution(Protocol):
    """A run under way, in this process or in one of its own."""

    @property
    def deadline(self) -> Deadline: ...

    def run(self) -> RunEnd | None:
        """Execute it; None: it was given up meanwhile."""

    def give_up(self, reason: Reason, error_type: str, why: str) -> RunEnd | None:
        """End it from outside, whatever it is doing; None: it had ended already."""

    def cancel(self) -> None:
        """Ask it to end; its result is of no interest any more."""
