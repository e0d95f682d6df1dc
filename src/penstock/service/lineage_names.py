"""What a pipeline reads and writes, by OpenLineage's naming of datasets: (namespace, name)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.config.spec import ConnectionSpec, PipelineSpec

Dataset = tuple[str, str]

_PORTS = {"postgres": 5432, "mysql": 3306}
_SCHEMES = {"postgresql": "postgres", "postgres": "postgres", "mysql": "mysql", "mariadb": "mysql"}


def inputs(spec: PipelineSpec, topics: Iterable[str]) -> list[Dataset]:
    """The topics that are read; a foreign source has no name that others would know it by."""
    if spec.source.is_foreign:
        return []
    where = _cluster(spec.source.config.connection)
    return [(where, topic) for topic in sorted(set(topics))]


def outputs(spec: PipelineSpec) -> list[Dataset]:
    """The topic, table or file that is written; other actions write to no dataset."""
    config = spec.action.config
    if spec.action.type == "kafka" and isinstance(topic := config.get("topic"), str):
        written = config.get("connection")
        connection = ConnectionSpec.model_validate(written) if written else spec.source.config.connection
        return [(_cluster(connection), topic)]
    if spec.action.type == "table":
        return [_table(str(config["url"]), str(config["table"]))]
    if spec.action.type == "file" and isinstance(path := config.get("path"), str):
        return [("file", str(Path(spec.folder or ".", path)))]
    return []


def _cluster(connection: ConnectionSpec) -> str:
    return f"kafka://{connection.bootstrap.split(',')[0].strip()}"


def _table(url: str, table: str) -> Dataset:
    """Never with user or password, which the address may hold."""
    parts = urlsplit(url)
    kind = _SCHEMES.get(parts.scheme.partition("+")[0])
    database = unquote(parts.path.removeprefix("/"))
    if kind is None:
        return f"{parts.scheme.partition('+')[0]}://{database}", table
    where = f"{kind}://{parts.hostname or 'localhost'}:{parts.port or _PORTS[kind]}"
    if kind == "postgres" and "." not in table:
        table = f"public.{table}"
    return where, f"{database}.{table}"
