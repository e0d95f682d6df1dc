"""A step that is a Python function."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Annotated, Any, Final

from pydantic import Field

from penstock.config.model import Model
from penstock.core.declarations import REFERABLE, Needs
from penstock.core.loading import bind, load_object
from penstock.core.plugin_config import parse_config
from penstock.workflows.steps.step import State, Step, StepContext

_LOOK_EVERY: Final = 1.0


class PythonStepConfig(Model):
    """Keys of a `python` step."""

    callable: Annotated[str, Needs("python", "a Python function")]
    """`module:function` or `./file.py:function`; called as `f(state)` or `f(state, config)`, by its signature."""
    config: Annotated[dict[str, Any], REFERABLE] = Field(default_factory=dict)
    """Handed to the function as its second argument."""


class PythonStep(Step):
    """Calls the function in the run's thread."""

    def __init__(self, config: dict[str, Any], folder: str | None) -> None:
        self._config = parse_config(PythonStepConfig, config, "python")
        self._folder = folder
        self._found = load_object(self._config.callable, folder)
        self._function = bind(self._config.callable, self._found, self._config.config)
        self._looks_at = time.monotonic() + _LOOK_EVERY
        self._is_file = self._config.callable.rpartition(":")[0].endswith(".py")

    def run(self, state: State, ctx: StepContext) -> Any:  # noqa: ARG002 - a function is killed from outside
        if self._is_file and time.monotonic() > self._looks_at:
            self._look()
        result = self._function(state)
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result

    def _look(self) -> None:
        """A file that was changed is loaded again: workers outlive it."""
        self._looks_at = time.monotonic() + _LOOK_EVERY
        found = load_object(self._config.callable, self._folder)
        if found is not self._found:
            self._function = bind(self._config.callable, found, self._config.config)
            self._found = found


async def _awaited(result: Any) -> Any:
    return await result
