"""The `match` filter: a predicate over the event's fields, by DataHub's rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from penstock.config.spec import Model
from penstock.core.event import Event
from penstock.core.plugin import Filter, PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.predicate import body_of, compile_predicate


class MatchConfig(Model):
    """Keys of the `match` filter."""

    event: dict[str, Any]
    """Field to wanted value, all must match: a scalar equals, a list is any of its texts, a map looks inside."""
    event_type: str | list[str] | None = None
    """Let only these event types pass; absent: any."""


class Match(Filter):
    """Lets events pass whose fields are as wanted."""

    config_model: ClassVar[type[MatchConfig]] = MatchConfig
    type_name: ClassVar[str] = "match"

    def __init__(self, config: MatchConfig) -> None:
        self._event = config.event
        self._test = compile_predicate(config.event)
        types = [config.event_type] if isinstance(config.event_type, str) else config.event_type
        self._types = None if types is None else frozenset(types)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(MatchConfig, config, "match"))

    def matches(self, event: Event) -> bool:
        if self._types is not None and event.event_type not in self._types:
            return False
        return self._test(body_of(event))

    def wanted(self, event_type: str) -> Sequence[Mapping[str, Any]] | None:
        """Predicates of which one must match."""
        return [self._event] if self._types is None or event_type in self._types else []
