"""Writes a project as Lightning does, with what Lightning's own files leave out."""

from __future__ import annotations

from io import StringIO
from typing import Any, Literal

import orjson
from ruamel.yaml import YAML

from penstock.config.trigger import LIGHTNING_FIELDS
from penstock.core.errors import ConfigError
from penstock.service.lightning.choices import written
from penstock.service.lightning.secret_pointers import trigger_pointer, with_pointers, workflow_pointer
from penstock.service.lightning.texts import Texts, key_of
from penstock.store import Store
from penstock.store.work.model import ProjectRow, TriggerRow, WorkflowRow

Form = Literal["yaml", "json"]


def export_project(store: Store, name: str, form: Form = "yaml") -> str:
    """A project as a file that Lightning would read, and Penstock reads without loss. Secrets are references."""
    project = store.projects.get(name)
    if project is None:
        known = [row.name for row in store.projects.list()]
        raise ConfigError(f"there is no project {name!r}", received=name, allowed=known)
    rows = store.workflows.list(project.id)
    return _yaml(store, project, rows) if form == "yaml" else _json(store, project, rows)


def _yaml(store: Store, project: ProjectRow, rows: list[WorkflowRow]) -> str:
    data: dict[str, Any] = {
        "name": project.name,
        "description": project.description,
        "collections": None,
        "channels": None,
        "credentials": None,
        "globals": None,
        "workflows": {key_of(row.name): _workflow_map(store, row) for row in rows} or None,
    }
    out = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # declared as None only
    writer.allow_unicode = True
    writer.dump(data, out)
    return out.getvalue()


def _json(store: Store, project: ProjectRow, rows: list[WorkflowRow]) -> str:
    data = {
        "id": project.id,
        "name": project.name,
        "description": project.description,
        "workflows": [_workflow_object(store, row) for row in rows],
    }
    kept = {key: value for key, value in data.items() if value is not None}
    return orjson.dumps(kept, option=orjson.OPT_INDENT_2).decode() + "\n"


def _workflow_map(store: Store, row: WorkflowRow) -> dict[str, Any]:
    definition, triggers = _definition(store, row), store.triggers.list(workflow_id=row.id)
    jobs, edges = _texts(row, definition, triggers).as_maps()
    return {
        "name": row.name,
        "jobs": jobs or None,
        "triggers": {each.name: _trigger(each, as_pairs=False) for each in triggers} or None,
        "edges": edges or None,
    } | _own(definition, row)


def _workflow_object(store: Store, row: WorkflowRow) -> dict[str, Any]:
    definition, triggers = _definition(store, row), store.triggers.list(workflow_id=row.id)
    jobs, edges = _texts(row, definition, triggers).as_lists()
    return {
        "id": definition.get("lightning", {}).get("id") or row.id,
        "name": row.name,
        "jobs": jobs,
        "triggers": [{"name": each.name} | _trigger(each, as_pairs=True) for each in triggers],
        "edges": edges,
    } | _own(definition, row)


def _texts(row: WorkflowRow, definition: dict[str, Any], triggers: list[TriggerRow]) -> Texts:
    return Texts(row.id, definition.get("lightning", {}), {each.id: each.name for each in triggers})


def _definition(store: Store, row: WorkflowRow) -> dict[str, Any]:
    snapshot = store.workflows.snapshot(row.snapshot_id) if row.snapshot_id else None
    return snapshot.definition if snapshot else {"steps": []}


def _own(definition: dict[str, Any], row: WorkflowRow) -> dict[str, Any]:
    """Penstock's steps and settings; a workflow that has none is wholly Lightning's."""
    if not definition.get("steps"):
        return {}
    pointed = definition | {"steps": with_pointers(definition["steps"], f"{workflow_pointer(row.id)}/steps")}
    return {"penstock": written(pointed)}


def _trigger(row: TriggerRow, *, as_pairs: bool) -> dict[str, Any]:
    config = with_pointers(row.kafka_configuration, trigger_pointer(row.id))
    hosts = config.get("hosts") or []
    if not as_pairs:
        config["hosts"] = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts]
    order = [name for name in LIGHTNING_FIELDS if name in config] + [n for n in config if n not in LIGHTNING_FIELDS]
    kept = {name: config[name] for name in order if config[name] is not None}
    options = {key: value for key, value in row.options.items() if key != "taken_over"}
    found = {
        "id": row.id,
        "type": row.type,
        "enabled": row.enabled,
        "comment": row.comment,
        "kafka_configuration": kept,
        "penstock": options or None,
    }
    return {key: value for key, value in found.items() if value is not None}
