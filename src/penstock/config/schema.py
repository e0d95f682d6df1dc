"""The JSON Schema of pipeline files, for editors: `python -m penstock.config.schema` writes it beside this module."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from penstock.config.dialects.datahub import LegacyFilter
from penstock.config.dialects.wherehows_file import WhereHowsFile
from penstock.config.spec import PipelineSpec

SCHEMA_FILE = Path(__file__).with_name("pipeline.schema.json")

_VARIABLE = {"type": "string", "pattern": r"\$"}
"""Any value may be a text with a variable in it, which becomes a number or a truth value after expansion."""
_SCALARS = {"integer", "number", "boolean"}


def pipeline_schema() -> dict[str, Any]:
    """What a pipeline file may hold, as JSON Schema."""
    schema = PipelineSpec.model_json_schema()
    legacy = LegacyFilter.model_json_schema()
    legacy["properties"]["event_type"] = {"anyOf": [{"type": "string"}, legacy["properties"]["event_type"]]}
    schema["properties"]["filter"] = legacy | {"deprecated": True}
    schema["properties"]["kind"] = {"const": "pipeline"}
    _free_other_sources(schema["$defs"]["SourceSpec"])
    source = schema["$defs"]["KafkaSourceConfig"]["properties"]
    source["topics"]["anyOf"].append({"type": "string"})
    mode = schema["$defs"]["OptionsSpec"]["properties"]["failure_mode"]
    mode["enum"] = [spelling for mode_ in mode["enum"] for spelling in (mode_, mode_.lower())]
    jobs = WhereHowsFile.model_json_schema()
    parts = jobs.pop("$defs") | schema.pop("$defs") | {"Pipeline": schema, "WhereHowsFile": jobs}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock pipeline",
        "$defs": _loosen(parts),
        "if": {"properties": {"dialect": {"const": "wherehows"}}, "required": ["dialect"]},
        "then": {"$ref": "#/$defs/WhereHowsFile"},
        "else": {"$ref": "#/$defs/Pipeline"},
    }


def _free_other_sources(source: dict[str, Any]) -> None:
    """Only the keys of Kafka are known here."""
    kafka = source["properties"]["config"]
    source["properties"]["config"] = {"type": "object", "description": kafka.get("description", "")}
    source["if"] = {"properties": {"type": {"const": "kafka"}}}
    source["then"] = {"properties": {"config": kafka}}


def _loosen(node: Any) -> Any:
    """Allow null for every key that has a default, and a variable wherever a scalar is wanted."""
    if isinstance(node, list):
        return [_loosen(item) for item in node]
    if not isinstance(node, dict):
        return node
    loose = {key: _loosen(item) for key, item in node.items()}
    required = set(loose.get("required", ()))
    for name, item in loose.get("properties", {}).items():
        if isinstance(item, dict):
            loose["properties"][name] = _with_alternatives(item, null=name not in required)
    return loose


def _with_alternatives(item: dict[str, Any], *, null: bool) -> dict[str, Any]:
    kinds = {item.get("type")} if isinstance(item.get("type"), str) else set()
    kinds |= {choice.get("type") for choice in item.get("anyOf", ()) if isinstance(choice.get("type"), str)}
    more = [{"type": "null"}] if null and "null" not in kinds else []
    if kinds & _SCALARS or "enum" in item or any("enum" in choice for choice in item.get("anyOf", ())):
        more.append(dict(_VARIABLE))
    if not more:
        return item
    if "anyOf" in item:
        return item | {"anyOf": [*item["anyOf"], *more]}
    about = {key: item[key] for key in ("title", "description", "default", "deprecated") if key in item}
    core = {key: value for key, value in item.items() if key not in about}
    return about | {"anyOf": [core, *more]}


def schema_text() -> str:
    """The schema as it is shipped."""
    return json.dumps(pipeline_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_FILE
    target.write_text(schema_text(), encoding="utf-8")
