"""Reads Lightning's files: the project YAML, the provisioning JSON, and rows of its database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.config.documents import Document, read_documents
from penstock.config.problems import InvalidConfigError, Problem
from penstock.config.problems import Path as KeyPath
from penstock.core.errors import ConfigError
from penstock.service.lightning.model import Ignored, LightningProject, LightningTrigger, LightningWorkflow

SHAPES: Final = (
    "a project as YAML (name, workflows: {…})",
    "a project as the provisioning API gives it (JSON: id, name, workflows: […])",
    "rows of the tables triggers or workflow_snapshots (JSON: […], or one object per line)",
)
_LINES: Final = (".jsonl", ".ndjson")
_NOT_USED: Final = {
    "collections": "collections are Lightning's own",
    "channels": "channels are Lightning's own",
    "credentials": "credentials of jobs are Lightning's own",
    "project_credentials": "credentials of jobs are Lightning's own",
    "globals": "globals are Lightning's own",
    "collaborators": "members are not taken over",
}


class OtherShape(ConfigError):
    """A file that is none of Lightning's."""

    code = "not_lightning"

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file} is no project of Lightning: {why}", received=file, allowed=SHAPES)


def read_project(file: Path, name: str | None = None) -> tuple[LightningProject, Document]:
    """The project of a file, and the document for telling where something stands. `name` is that of the project,
    where the file has none, or another is wanted."""
    document = _document(file)
    data = document.data
    if isinstance(data, Mapping) and isinstance(data.get("data"), Mapping):
        data = data["data"]  # as the API wraps it
    rows = _rows_in(data)
    if rows is not None:
        project = _of_rows(rows, name or "lightning")
    elif isinstance(data, Mapping) and "workflows" in data:
        project = _of_project(data, name, str(file))
    else:
        raise OtherShape(str(file), "it has no workflows, and no rows of triggers")
    return project, document


def _document(file: Path) -> Document:
    if file.suffix.lower() in _LINES:
        return Document(str(file), _lines(file))
    reading = read_documents(file)
    if reading.problems:
        raise InvalidConfigError(reading.problems)
    if len(reading.documents) != 1:
        raise OtherShape(str(file), "it holds several documents")
    return reading.documents[0]


def _lines(file: Path) -> list[Any]:
    try:
        return [orjson.loads(line) for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise InvalidConfigError([Problem(file=str(file), message=f"cannot be read: {error.strerror}")]) from None
    except orjson.JSONDecodeError as error:
        raise OtherShape(str(file), f"a line of it is not JSON: {error}") from None


# -- projects -----------------------------------------------------------------------------


def _of_project(data: Mapping[str, Any], name: str | None, file: str) -> LightningProject:
    called = name or data.get("name")
    if not isinstance(called, str) or not called:
        raise OtherShape(file, "it has no name")
    project = LightningProject(name=called, description=data.get("description"))
    for key, why in _NOT_USED.items():
        if data.get(key):
            project.ignored.append(Ignored(key, why))
    for place, item in _items(data["workflows"], "workflows", file):
        project.workflows.append(_workflow(item, ("workflows", place), str(place), project, file))
    return project


def _items(value: Any, where: str, file: str) -> Iterator[tuple[str | int, dict[str, Any]]]:
    """Entries of a map by name, or of a list; null is nothing."""
    entries: Iterable[tuple[str | int, Any]]
    if value is None:
        return
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    else:
        raise OtherShape(file, f"{where} is neither a map nor a list")
    for place, item in entries:
        if item is not None and not isinstance(item, Mapping):
            raise OtherShape(file, f"{where}.{place} is no map")
        yield place, dict(item or {})


def _workflow(item: dict[str, Any], path: KeyPath, key: str, project: LightningProject, file: str) -> LightningWorkflow:
    name = item.get("name") or (key if isinstance(path[-1], str) else item.get("id"))
    if not isinstance(name, str):
        raise OtherShape(file, f"workflow {key} has no name")
    found = LightningWorkflow(name=name, id=item.get("id"), path=path, penstock=dict(item.get("penstock") or {}))
    if item.get("delete"):
        more = sorted(set(item) - {"id", "name", "delete"})
        if more:
            raise ConfigError(f"workflow {name}: delete may not be combined with other changes", received=more)
        found.delete = True
        return found
    found.jobs = [_keyed(place, job) for place, job in _items(item.get("jobs"), "jobs", file)]
    found.edges = [_keyed(place, edge) for place, edge in _items(item.get("edges"), "edges", file)]
    for place, trigger in _items(item.get("triggers"), "triggers", file):
        _take_trigger(found, trigger, place, (*path, "triggers", place), project)
    return found


def _keyed(place: str | int, item: dict[str, Any]) -> dict[str, Any]:
    return {"key": place} | item if isinstance(place, str) else item


def _take_trigger(
    workflow: LightningWorkflow, item: dict[str, Any], place: str | int, path: KeyPath, project: LightningProject
) -> None:
    kind = item.get("type") or ("kafka" if item.get("kafka_configuration") else place)
    if kind != "kafka":
        project.ignored.append(Ignored(f"{workflow.name}: trigger {place}", f"only Kafka triggers are run, not {kind}"))
        return
    configuration = item.get("kafka_configuration")
    if isinstance(configuration, str):
        configuration = orjson.loads(configuration)  # jsonb, as some tools print it
    given = configuration if isinstance(configuration, Mapping) else {}
    taken = {trigger.name for trigger in workflow.triggers}
    called = item.get("name") or (place if isinstance(place, str) else "kafka")
    name = called if called not in taken else f"{called}-{len(taken) + 1}"
    workflow.triggers.append(
        LightningTrigger(
            name=name,
            id=item.get("id"),
            enabled=bool(item.get("enabled")),
            configuration=configuration,
            group_id=item.get("group_id") or given.get("group_id"),
            comment=item.get("comment"),
            options=dict(item.get("penstock") or {}),
            path=(*path, "kafka_configuration"),
        )
    )


# -- rows ---------------------------------------------------------------------------------


def _rows_in(data: Any) -> list[dict[str, Any]] | None:
    """Rows of triggers or snapshots, alone or under the name of their table."""
    rows: list[Any]
    if isinstance(data, Mapping):
        tables = [data.get(name) for name in ("triggers", "workflow_snapshots")]
        if "workflows" in data or not any(isinstance(table, list) for table in tables):
            rows = [data] if "kafka_configuration" in data else []
        else:
            rows = [row for table in tables for row in table or ()]
    else:
        rows = data if isinstance(data, list) else []
    return rows if rows and all(isinstance(row, dict) and _is_row(row) for row in rows) else None


def _is_row(row: Mapping[str, Any]) -> bool:
    return "kafka_configuration" in row or isinstance(row.get("triggers"), list)


def _of_rows(rows: list[dict[str, Any]], name: str) -> LightningProject:
    project = LightningProject(name=name)
    by_id: dict[str, LightningWorkflow] = {}
    # The newest version of a workflow that still had Kafka triggers is the one to go by.
    snapshots = [row for row in rows if isinstance(row.get("triggers"), list)]
    for row in sorted(snapshots, key=lambda row: (row.get("lock_version") or 0, str(row.get("inserted_at") or ""))):
        found = LightningWorkflow(name=str(row.get("name") or row.get("workflow_id")), id=row.get("workflow_id"))
        found.jobs, found.edges = list(row.get("jobs") or []), list(row.get("edges") or [])
        for place, trigger in enumerate(row["triggers"]):
            _take_trigger(found, dict(trigger), place, ("triggers", place), project)
        if found.triggers or str(found.id) not in by_id:
            by_id[str(found.id)] = found
    for place, row in enumerate(row for row in rows if "kafka_configuration" in row):
        workflow = str(row.get("workflow_id") or "triggers")
        known = by_id.setdefault(workflow, LightningWorkflow(name=workflow, id=row.get("workflow_id")))
        if all(trigger.id != row.get("id") or row.get("id") is None for trigger in known.triggers):
            _take_trigger(known, row, place, (place,), project)
    project.workflows = list(by_id.values())
    project.ignored = list(dict.fromkeys(project.ignored))
    return project
