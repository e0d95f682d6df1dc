"""The `drop` and `keep` transforms: events without, or with nothing but, some fields."""

from __future__ import annotations

from typing import Any, ClassVar, Self, cast

from pydantic import Field

from penstock.config.spec import Model
from penstock.core.errors import PenstockError, Terminal
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext, Transform
from penstock.core.plugin_config import parse_config

Tree = dict[str, "Tree | None"]
"""Fields by name, each with the fields below it; None: the field as a whole."""


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
        return event.replaced(_without(fields_of(event), self._tree))


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
        return event.replaced(_only(fields_of(event), self._tree))


def fields_of(event: Event) -> dict[str, Any]:
    """The value, which must be a map."""
    value = event.value
    if not isinstance(value, dict):
        raise NotAMapError(
            f"the event's value is a {type(value).__name__} and has no fields", received=type(value).__name__
        )
    return value


def tree_of(paths: list[str]) -> Tree:
    """Dotted paths as one tree; a path above another one wins."""
    root: Tree = {}
    for path in sorted(paths, key=lambda path: path.count(".")):
        *above, last = path.split(".")
        node: Tree | None = root
        for part in above:
            node = cast("Tree", node).setdefault(part, {})
            if node is None:
                break
        if node is not None:
            node[last] = None
    return root


def _without(value: dict[str, Any], tree: Tree) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, inner in value.items():
        if name not in tree:
            kept[name] = inner
        elif (below := tree[name]) is not None:
            kept[name] = _without(inner, below) if isinstance(inner, dict) else inner
    return kept


def _only(value: dict[str, Any], tree: Tree) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, below in tree.items():
        if name not in value:
            continue
        inner = value[name]
        if below is None:
            kept[name] = inner
        elif isinstance(inner, dict):
            kept[name] = _only(inner, below)
    return kept
