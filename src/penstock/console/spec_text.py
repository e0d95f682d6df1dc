"""A spec as the stages it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Stage(NamedTuple):
    """One box of the graph."""

    kind: str
    what: str
    more: str = ""


def stages_of(spec: Mapping[str, Any]) -> list[Stage]:
    """Source, filters, transforms and action, in the order in which events meet them."""
    config = spec.get("source", {}).get("config", {})
    topics = config.get("topics") or [
        config.get("topic_pattern") or ", ".join((config.get("topic_routes") or {}).values())
    ]
    found = [Stage("source", ", ".join(topics) or "kafka", f"format {config.get('format', 'json')}")]
    found += [Stage("filter", step["type"]) for step in spec.get("filters") or ()]
    found += [Stage("transform", step["type"]) for step in spec.get("transform") or ()]
    action = spec.get("action") or {"type": "none"}
    return [*found, Stage("action", action["type"], _target(action.get("config") or {}))]


def _target(config: Mapping[str, Any]) -> str:
    """Where the action brings events."""
    named = next(
        (config[key] for key in ("table", "topic", "path", "url", "callable", "workflow") if config.get(key)), ""
    )
    return str(named)
