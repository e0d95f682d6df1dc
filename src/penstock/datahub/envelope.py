"""The envelope in which plug-ins written for DataHub receive events."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from typing import Any

from penstock.datahub.bases import Event

logger = logging.getLogger(__name__)


@dataclass
class EventEnvelope:
    """An event with its type and where it came from."""

    event_type: str
    event: Event
    meta: dict[str, Any]

    def as_json(self) -> str:
        """DataHub's text form; a `meta` that JSON cannot hold is written as null."""
        try:
            meta = json.dumps(self.meta)
        except Exception:  # noqa: BLE001 - plug-ins put anything into it
            logger.warning("meta cannot be written as JSON and is left out")
            meta = "null"
        return f'{{ "event_type": "{self.event_type}", "event": {self.event.as_json()}, "meta": {meta} }}'

    @classmethod
    def from_json(cls, json_str: str) -> EventEnvelope:
        """Read the text form; the event's type must be in the event registry."""
        from penstock.datahub.registries import event_registry  # noqa: PLC0415 - the registry knows the events, and they this module's home

        parsed = json.loads(json_str)
        # Interned, the text is the very object of its constant: plug-ins compare with `is`.
        event_type = sys.intern(parsed["event_type"])
        event = event_registry.get(event_type).from_json(json.dumps(parsed["event"]))
        return cls(event_type=event_type, event=event, meta=parsed.get("meta", {}))
