"""DataHub's `event_type` filter: predicates per event type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from penstock.config.spec import Model
from penstock.core.event import Event
from penstock.core.plugin import Filter, PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.predicate import body_of, compile_predicate


class EventTypePredicates(Model):
    """What events of one type must be like."""

    event: list[dict[str, Any]] | None = None
    """Predicates, any of which lets an event pass; absent: the type alone is enough; an empty list: nothing passes."""


class EventTypeConfig(Model):
    """Keys of the `event_type` filter."""

    filter: dict[str, EventTypePredicates | None]
    """Event type to predicates; types that are not listed are dropped."""


class EventTypeFilter(Filter):
    """Lets events of the listed types pass, where one of the type's predicates matches."""

    config_model: ClassVar[type[EventTypeConfig]] = EventTypeConfig
    type_name: ClassVar[str] = "event_type"

    def __init__(self, config: EventTypeConfig) -> None:
        self._wanted = {name: None if given is None else given.event for name, given in config.filter.items()}
        self._tests = {
            name: None if wanted is None else [compile_predicate(one) for one in wanted]
            for name, wanted in self._wanted.items()
        }

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:  # noqa: ARG003 - the contract's signature
        return cls(parse_config(EventTypeConfig, config, "event_type"))

    def matches(self, event: Event) -> bool:
        tests = self._tests.get(event.event_type, ())
        if tests is None:
            return True
        if not tests:
            return False
        body = body_of(event)
        return any(test(body) for test in tests)

    def wanted(self, event_type: str) -> Sequence[Mapping[str, Any]] | None:
        """Predicates of which one must match; None: all events of the type pass."""
        return self._wanted.get(event_type, [])
