"""The `python` action: a plain function of the user's, or an action class by its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import Field

from penstock.config.spec import Model
from penstock.core.declarations import REFERABLE, Needs
from penstock.core.loading import bind, load_object
from penstock.core.plugin import Action, PipelineContext
from penstock.core.plugin_config import parse_config


class PythonConfig(Model):
    """Keys of the `python` action."""

    callable: Annotated[str, Needs("python", "a Python function")]
    """`module:function` or `file.py:function`; called as `f(event)` or `f(event, config)`, by its signature."""
    config: Annotated[dict[str, Any], REFERABLE] = Field(default_factory=dict)
    """Handed to the function as its second argument."""


class Python(Action):
    """Calls the function with each event. None or True is done, False defers, any other result is a failure."""

    parallel_safe: ClassVar[bool] = True
    config_model: ClassVar[type[PythonConfig]] = PythonConfig
    type_name: ClassVar[str] = "python"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.act = function  # type: ignore[method-assign]  # the function itself: not one call more per event

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        parsed = parse_config(PythonConfig, config, "python")
        if named_class(parsed.callable, ctx.folder):
            from penstock.act.registry import actions  # noqa: PLC0415 - the registry's table names this module

            return cast("Self", actions.create(parsed.callable, parsed.config, ctx))
        return cls(bind(parsed.callable, load_object(parsed.callable, ctx.folder), parsed.config))

    def close(self) -> None:
        """Nothing is open."""


def named_class(path: str, folder: str | None) -> type[Action] | None:
    """The action class that `callable` names; None for a function."""
    from penstock.act.registry import actions  # noqa: PLC0415 - as above

    found = load_object(path, folder)
    return cast("type[Action]", found) if actions.accepts(found) else None
