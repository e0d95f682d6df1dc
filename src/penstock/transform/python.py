"""The `python` transform: a plain function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from penstock.config.spec import Model
from penstock.core.declarations import REFERABLE, Needs
from penstock.core.errors import PluginError
from penstock.core.event import Body, Event
from penstock.core.loading import bind, load_object
from penstock.core.plugin import PipelineContext, Transform
from penstock.core.plugin_config import parse_config


class PythonConfig(Model):
    """Keys of the `python` transform."""

    callable: Annotated[str, Needs("python", "a Python function")]
    """`module:function` or `file.py:function`; called as `f(event)` or `f(event, config)`, by its signature."""
    config: Annotated[dict[str, Any], REFERABLE] = Field(default_factory=dict)
    """Handed to the function as its second argument."""


class Python(Transform):
    """Calls the function: a value is the event's new value, None drops the event, an event goes on as it is."""

    config_model: ClassVar[type[PythonConfig]] = PythonConfig
    type_name: ClassVar[str] = "python"

    def __init__(self, function: Callable[[Event], Any]) -> None:
        self._function = function

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        parsed = parse_config(PythonConfig, config, "python")
        function = bind(parsed.callable, load_object(parsed.callable, ctx.folder), parsed.config)
        if inspect.iscoroutinefunction(function):
            hint = "transforms run one after the other; wait inside an action instead"
            raise PluginError(
                f"`{parsed.callable}` is async, and a transform is not", received=parsed.callable, hint=hint
            )
        return cls(function)

    def transform(self, event: Event) -> Event | None:
        result = self._function(event)
        if result is None or isinstance(result, Event):
            return result
        return event.replaced(result.value if isinstance(result, Body) else result)
