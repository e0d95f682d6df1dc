"""A spec as YAML, and as the stages it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any, NamedTuple

from ruamel.yaml import YAML


class Stage(NamedTuple):
    """One box of the graph."""

    kind: str
    what: str
    more: str = ""


def as_yaml(spec: Mapping[str, Any]) -> str:
    """Plain YAML in the order of the spec."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel's own default is not a bool
    yaml.width = 110
    out = StringIO()
    yaml.dump(dict(spec), out)
    return out.getvalue()


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
