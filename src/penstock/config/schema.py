"""The JSON Schemas of pipeline and workflow files, for editors: `python -m penstock.config.schema` writes them beside
this module."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from penstock.config.dialects.datahub import LegacyFilter
from penstock.config.dialects.wherehows_file import WhereHowsFile
from penstock.config.spec import PipelineSpec
from penstock.config.trigger_model import KafkaConfiguration
from penstock.config.workflow import STEP_KINDS, WorkflowSpec

SCHEMA_FILE = Path(__file__).with_name("pipeline.schema.json")
WORKFLOW_SCHEMA_FILE = Path(__file__).with_name("workflow.schema.json")

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
    workflow = _workflow()
    parts = jobs.pop("$defs") | schema.pop("$defs") | workflow.pop("$defs")
    parts |= {"Pipeline": schema, "WhereHowsFile": jobs, "Workflow": workflow}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock pipeline",
        "$defs": _loosen(parts),
        "if": {"properties": {"dialect": {"const": "wherehows"}}, "required": ["dialect"]},
        "then": {"$ref": "#/$defs/WhereHowsFile"},
        "else": {
            "if": {"properties": {"kind": {"const": "workflow"}}, "required": ["kind"]},
            "then": {"$ref": "#/$defs/Workflow"},
            "else": {"$ref": "#/$defs/Pipeline"},
        },
    }


def workflow_schema() -> dict[str, Any]:
    """What a `kind: workflow` document may hold, as JSON Schema."""
    loose: dict[str, Any] = _loosen(_workflow())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | loose | {"title": "Penstock workflow"}


def _workflow() -> dict[str, Any]:
    schema = WorkflowSpec.model_json_schema(by_alias=True)
    schema["properties"] = {"kind": {"const": "workflow"}} | schema["properties"]
    schema["required"] = ["kind", *schema["required"]]
    project = schema["properties"]["project"]
    schema["properties"]["project"] = {"anyOf": [{"type": "string"}, project]}
    triggers = schema["properties"]["triggers"]
    by_name = {"type": "object", "additionalProperties": triggers["items"]}
    schema["properties"]["triggers"] = {"anyOf": [{"type": "array", "items": triggers["items"]}, by_name]}
    schema["$defs"]["KafkaConfiguration"] = kafka = KafkaConfiguration.model_json_schema()
    trigger = schema["$defs"]["TriggerSpec"]["properties"]
    trigger |= {name: item for name, item in kafka["properties"].items() if name != "group_id"}
    trigger["kafka_configuration"] = {"$ref": "#/$defs/KafkaConfiguration"}
    step = schema["$defs"]["WorkflowStep"]
    step["properties"]["command"]["anyOf"].append({"type": "string"})
    step["oneOf"] = [{"required": [kind]} for kind in STEP_KINDS]
    return schema


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


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as it is shipped."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMA_FILE.parent
    for file, made in ((SCHEMA_FILE, pipeline_schema()), (WORKFLOW_SCHEMA_FILE, workflow_schema())):
        (folder / file.name).write_text(schema_text(made), encoding="utf-8")
