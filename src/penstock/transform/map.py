"""The `map` transform: a new value, each field of it a CEL expression."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from penstock.config.spec import Model
from penstock.core.event import Event
from penstock.core.expression import Cel, Expression
from penstock.core.plugin import PipelineContext, Transform
from penstock.core.plugin_config import parse_config
from penstock.transform.fields import fields_of


class MapConfig(Model):
    """Keys of the `map` transform."""

    fields: dict[str, Cel] = Field(min_length=1)
    """Field name to CEL expression."""
    mode: Literal["replace", "merge"] = "replace"
    """`replace`: the fields are the new value; `merge`: they are laid over the old one."""


class Map(Transform):
    """The event with a computed value."""

    config_model: ClassVar[type[MapConfig]] = MapConfig
    type_name: ClassVar[str] = "map"

    def __init__(self, config: MapConfig) -> None:
        self._fields = [(name, Expression(source)) for name, source in config.fields.items()]
        self._merge = config.mode == "merge"

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(MapConfig, config, "map"))

    def transform(self, event: Event) -> Event:
        made = {name: expression(event) for name, expression in self._fields}
        return event.replaced({**fields_of(event), **made} if self._merge else made)
