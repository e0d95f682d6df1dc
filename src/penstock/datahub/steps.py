"""DataHub's own filters as classes, for code that makes or extends them; pipelines run Penstock's compiled ones."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from penstock.core.predicate import Test, compile_predicate
from penstock.datahub.bases import Filter, Transformer
from penstock.datahub.context import PipelineContext
from penstock.datahub.envelope import EventEnvelope


def matches(match_val: Any, match_val_to: Any) -> bool:
    """Whether what an event has (`match_val_to`) is what a predicate wants (`match_val`)."""
    return compile_predicate(match_val)(match_val_to)


class FilterTransformerConfig(BaseModel):
    """Keys of the deprecated `filter` block."""

    model_config = ConfigDict(extra="forbid")

    event_type: str | list[str]
    event: dict[str, Any] | None = None


class FilterTransformer(Transformer):
    """Drops events of other types, and those that the predicate does not match."""

    def __init__(self, config: FilterTransformerConfig) -> None:
        self.config = config
        self._type = compile_predicate(config.event_type)
        self._body = None if config.event is None else compile_predicate(config.event)

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> FilterTransformer:  # noqa: ARG003 - the contract's signature
        return cls(FilterTransformerConfig.model_validate(config_dict))

    def transform(self, env_event: EventEnvelope) -> EventEnvelope | None:
        if not self._type(env_event.event_type):
            return None
        return env_event if self._body is None or self._body(_body(env_event)) else None


class EventTypeFilterSpec(BaseModel):
    """Predicates for events of one type, any of which is enough; absent: the type is."""

    model_config = ConfigDict(extra="forbid")

    event: list[dict[str, Any]] | None = None


class EventTypeFilterConfig(BaseModel):
    """Keys of the `event_type` filter."""

    model_config = ConfigDict(extra="forbid")

    filter: dict[str, EventTypeFilterSpec | None]


class EventTypeFilter(Filter):
    """Lets events of the listed types pass, where one of the type's predicates matches."""

    def __init__(self, config: EventTypeFilterConfig) -> None:
        self.config = config
        self._tests: dict[str, list[Test] | None] = {
            event_type: None if spec is None or spec.event is None else [compile_predicate(one) for one in spec.event]
            for event_type, spec in config.filter.items()
        }

    @classmethod
    def create(cls, config_dict: dict[str, Any], ctx: PipelineContext) -> EventTypeFilter:  # noqa: ARG003 - as above
        return cls(EventTypeFilterConfig.model_validate(config_dict))

    def matches(self, event: EventEnvelope) -> bool:
        tests = self._tests.get(event.event_type, [])
        if tests is None:
            return True
        body = _body(event) if tests else None
        return any(test(body) for test in tests)


def _body(event: EventEnvelope) -> Any:
    return json.loads(event.event.as_json())
