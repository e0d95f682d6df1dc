"""DataHub's legacy `filter` block, which runs as the first transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from penstock.config.spec import Model
from penstock.core.event import Event
from penstock.core.plugin import PipelineContext, Transform
from penstock.core.plugin_config import parse_config
from penstock.core.predicate import body_of, compile_predicate


class LegacyFilterConfig(Model):
    """Keys of the legacy filter."""

    event_type: str | list[str]
    """The event type, or any of several."""
    event: dict[str, Any] | None = None
    """Predicate over the event's fields; absent: the type alone is enough."""


class LegacyFilter(Transform):
    """Drops events that are of another type or do not match."""

    config_model: ClassVar[type[LegacyFilterConfig]] = LegacyFilterConfig
    type_name: ClassVar[str] = "__filter"

    def __init__(self, config: LegacyFilterConfig) -> None:
        self._types = frozenset([config.event_type] if isinstance(config.event_type, str) else config.event_type)
        self._event = config.event
        self._test = None if config.event is None else compile_predicate(config.event)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(LegacyFilterConfig, config, "filter"))

    def transform(self, event: Event) -> Event | None:
        if event.event_type not in self._types:
            return None
        return event if self._test is None or self._test(body_of(event)) else None

    def wanted(self, event_type: str) -> Sequence[Mapping[str, Any]] | None:
        """Predicates of which one must match; None: all events of the type pass."""
        if event_type not in self._types:
            return []
        return None if self._event is None else [self._event]
