"""The `drop` and `keep` transforms: events without, or with nothing but, some fields."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import Field

from penstock.config.spec import Model
from penstock.core.errors import PenstockError, Terminal
from penstock.core.event import Event
from penstock.core.fields import only, tree_of, without
from penstock.core.plugin import PipelineContext, Transform
from penstock.core.plugin_config import parse_config


class NotAMapError(PenstockError, Terminal):
    """The event's value has no fields."""

    code = "not-a-map"


class FieldsConfig(Model):
    """Keys of the `drop` and `keep` transforms."""

    fields: list[str] = Field(min_length=1)
    """Dotted paths: `customer.email`. A path that an event does not have is passed over; arrays are not looked into."""


class Drop(Transform):
    """The event without these fields."""

    config_model: ClassVar[type[FieldsConfig]] = FieldsConfig
    type_name: ClassVar[str] = "drop"

    def __init__(self, config: FieldsConfig) -> None:
        self._tree = tree_of(config.fields)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(FieldsConfig, config, cls.type_name))

    def transform(self, event: Event) -> Event:
        return event.replaced(without(fields_of(event), self._tree))


class Keep(Transform):
    """The event with these fields and no others."""

    config_model: ClassVar[type[FieldsConfig]] = FieldsConfig
    type_name: ClassVar[str] = "keep"

    def __init__(self, config: FieldsConfig) -> None:
        self._tree = tree_of(config.fields)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(FieldsConfig, config, cls.type_name))

    def transform(self, event: Event) -> Event:
        return event.replaced(only(fields_of(event), self._tree))


def fields_of(event: Event) -> dict[str, Any]:
    """The value, which must be a map, or a record of DataHub's as one."""
    value = event.value
    plain = getattr(value, "plain", None)
    if plain is not None:
        value = plain()
    if not isinstance(value, dict):
        raise NotAMapError(
            f"the event's value is a {type(value).__name__} and has no fields", received=type(value).__name__
        )
    return value
