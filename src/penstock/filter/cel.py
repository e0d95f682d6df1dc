"""The `cel` filter: an expression that must be true."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from penstock.config.spec import Model
from penstock.core.event import Event
from penstock.core.expression import Cel, Expression, ExpressionError
from penstock.core.plugin import Filter, PipelineContext
from penstock.core.plugin_config import parse_config


class CelConfig(Model):
    """Keys of the `cel` filter."""

    expression: Cel
    """CEL over `event`, `key`, `headers`, `topic`, `timestamp`, `event_type` and more; must give true or false."""


class CelFilter(Filter):
    """Lets events pass for which the expression is true."""

    config_model: ClassVar[type[CelConfig]] = CelConfig
    type_name: ClassVar[str] = "cel"

    def __init__(self, config: CelConfig) -> None:
        self._expression = Expression(config.expression)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(CelConfig, config, "cel"))

    def matches(self, event: Event) -> bool:
        result = self._expression(event)
        if type(result) is not bool:
            kind = type(result).__name__
            source = self._expression.source
            raise ExpressionError(f"`{source}` gave a {kind}, and a filter wants true or false", received=kind)
        return result
