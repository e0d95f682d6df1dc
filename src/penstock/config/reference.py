"""Writes the reference of all configuration keys from the models: `python -m penstock.config.reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.config.dialects.datahub import LegacyFilter
from penstock.config.dialects.wherehows_file import WhereHowsFile
from penstock.config.settings import Settings
from penstock.config.spec import PipelineSpec
from penstock.config.trigger_model import KafkaConfiguration
from penstock.config.workflow import WorkflowSpec
from penstock.core.declarations import model_in

PAGE = Path("docs/reference/configuration.md")

_INTRO = """# Configuration

This page is made from the models in `penstock.config` by `python -m penstock.config.reference`; do not edit it.

Values may hold `${NAME}`, `${NAME:-default}` and `${file:path}`. Durations are written `250ms`, `30s`, `1h30m` or as a
number of seconds, rates as `100/s` or `6000/m`. A null counts as absent.
"""
_FILES = """\
One YAML, JSON or TOML file per pipeline, or several YAML documents in one file. `penstock validate` checks them;
the JSON Schema for editors is `penstock/config/pipeline.schema.json` in the package.
"""
_WHEREHOWS = """\
A YAML file with `dialect: wherehows` names jobs of a WhereHows installation; `.job` and `.properties` files are taken
as they are. [Moving from WhereHows](../guides/moving-from-wherehows.md) says which of their keys mean what.
"""
_WORKFLOWS = """\
A YAML document with `kind: workflow` says what is done when a message comes, and what starts it; its JSON Schema is
`penstock/config/workflow.schema.json` in the package. [Triggers](../guides/triggers.md) shows it at work.
"""
_SETTINGS = """\
`penstock.yaml` is looked for at `$PENSTOCK_CONFIG`, in the working directory, and in `$PENSTOCK_HOME`. Each key
can also be given by a variable, which goes first: `http.port` is `PENSTOCK_HTTP_PORT`.
"""
_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path", Any: "any"}


def reference() -> str:
    """The page."""
    parts = [_INTRO, "## Pipeline files\n", _FILES, *_sections(PipelineSpec, "")]
    parts += ["### `filter`\n", *_table(LegacyFilter, "filter.")]
    parts += ["## Workflow files\n", _WORKFLOWS, *_sections(WorkflowSpec, "")]
    parts += ["### `triggers[].kafka_configuration`\n", *_table(KafkaConfiguration, "triggers[].kafka_configuration.")]
    parts += ["## WhereHows files\n", _WHEREHOWS, *_table(WhereHowsFile, ""), "## Instance settings\n", _SETTINGS]
    parts += _sections(Settings, "")
    return "\n".join(parts).rstrip() + "\n"


def _sections(model: type[BaseModel], above: str) -> Iterator[str]:
    if above:
        yield f"### `{above.removesuffix('.')}`\n"
        yield f"{_sentence(model.__doc__)}\n"
    yield from _table(model, above)
    shown: set[type[BaseModel]] = set()
    for name, info in model.model_fields.items():
        inner = model_in(info.annotation)
        if inner is not None and inner not in shown:
            shown.add(inner)
            many = "[]" if get_origin(info.annotation) is list else ""
            yield from _sections(inner, f"{above}{name}{many}.")


def _table(model: type[BaseModel], above: str) -> Iterator[str]:
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, info in model.model_fields.items():
        rows.append(
            f"| `{above}{info.alias or name}` | {_kind(info)} | {_default(info)} | {_sentence(info.description)} |"
        )
    yield "\n".join(rows) + "\n"


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _kind(info: FieldInfo) -> str:
    return next((kind for mark in info.metadata if (kind := _kind_of(mark))), None) or _name(info.annotation)


def _name(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{arg}`" for arg in args)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_name(arg) for arg in args if arg is not NoneType))
    if origin is list:
        return f"list of {_name(args[0])}"
    if origin is None or origin is dict:
        return _NAMES.get(annotation, "map")
    return next((kind for mark in args[1:] if (kind := _kind_of(mark))), _name(args[0]))  # Annotated


def _kind_of(mark: Any) -> str:
    described = getattr(mark, "json_schema", None) or {}
    return str(described.get("description", "")).partition(":")[0].removeprefix("a ")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    default = info.default
    if info.default_factory is not None or default is None:
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float) and _kind(info) == "duration":
        return f"`{default:g}s`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(reference(), encoding="utf-8")
