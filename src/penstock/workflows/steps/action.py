"""A step that hands the state to a registered action, as its event."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from penstock.config.model import Model
from penstock.core.plugin_config import parse_config
from penstock.workflows.steps.step import MakeAction, State, Step, StepContext


class ActionStepConfig(Model):
    """Keys of an `action` step."""

    type: str
    """Name or path of the action."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The action's own keys."""


class ActionStep(Step):
    """The state stays as it is; what the action raises fails the step."""

    def __init__(self, config: dict[str, Any], folder: str | None, make: MakeAction) -> None:
        parsed = parse_config(ActionStepConfig, config, "action")
        self._act, self._close = make(parsed.type, parsed.config, folder)

    def run(self, state: State, ctx: StepContext) -> Any:  # noqa: ARG002 - an action is killed from outside
        self._act(state)

    def close(self) -> None:
        self._close()
