"""What DataHub's modules offer to plug-ins for reading aspects out of events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from penstock.datahub.envelope import EventEnvelope
from penstock.datahub.events import METADATA_CHANGE_LOG_EVENT_V1_TYPE
from penstock.datahub.schema_classes import MetadataChangeLogClass

C = TypeVar("C")
_JSON = "application/json"


class MCLProcessor:
    """Calls the function registered for a change's entity type and aspect."""

    def __init__(self) -> None:
        self.entity_aspect_processors: dict[str, dict[str, Callable[..., Any]]] = {}

    def is_mcl(self, event: EventEnvelope) -> bool:
        return event.event_type == METADATA_CHANGE_LOG_EVENT_V1_TYPE

    def register_processor(self, entity_type: str, aspect: str, processor: Callable[..., Any]) -> None:
        self.entity_aspect_processors.setdefault(entity_type, {})[aspect] = processor

    def process(self, event: EventEnvelope) -> Any:
        """What the function returns; None where the event is no change log, or nobody asked for its kind."""
        change: Any = event.event
        if not isinstance(change, MetadataChangeLogClass):
            return None
        processor = self.entity_aspect_processors.get(change.entityType, {}).get(change.aspectName or "")
        if processor is None:
            return None
        return processor(
            entity_urn=change.entityUrn,
            aspect_name=change.aspectName,
            aspect_value=change.aspect,
            previous_aspect_value=change.previousAspectValue,
        )


def parse_generic_aspect(cls: type[C], aspect: Any) -> C:
    """An aspect's JSON as an object of `cls`."""
    return cast("C", _parsed(cls, aspect, "aspect"))


def parse_generic_payload(cls: type[C], payload: Any) -> C:
    """A platform event's JSON as an object of `cls`."""
    return cast("C", _parsed(cls, payload, "payload"))


def _parsed(cls: Any, holder: Any, what: str) -> Any:
    if holder.contentType != _JSON:
        raise ValueError(f"a content type of {_JSON} is wanted, the {what} has {holder.contentType}")
    return cls.from_obj(_untagged(json.loads(holder.value)))


def _untagged(value: Any) -> Any:
    """Without the names of types that the catalogue's JSON puts around members of unions."""
    if isinstance(value, dict):
        if len(value) == 1:
            name, inner = next(iter(value.items()))
            if name.startswith("com.linkedin.") and isinstance(inner, dict):
                return _untagged(inner)
        return {name: _untagged(inner) for name, inner in value.items()}
    return [_untagged(inner) for inner in value] if isinstance(value, list) else value
