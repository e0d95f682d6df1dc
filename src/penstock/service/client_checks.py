"""Whether the Kafka client would take a pipeline's connection, told at the key that is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.config.loading import Loaded
from penstock.config.problems import Path as KeyPath
from penstock.config.problems import Problem
from penstock.config.spec import ConnectionSpec, PipelineSpec
from penstock.core.errors import PenstockError
from penstock.core.loading import make_importable
from penstock.core.secrets import Scrubber
from penstock.kafka.client import KafkaClientConfig

_CONNECTION = ("source", "config", "connection")
_PROPERTIES = (*_CONNECTION, "consumer_config")


def client_remarks(loaded: Loaded, spec: PipelineSpec) -> Iterator[tuple[bool, Problem]]:
    """Problems (True) and warnings (False). A file of keys that is not on this machine is only worth a warning here:
    files are validated in other places than where they run."""
    if spec.source.type != "kafka":
        return
    connection = spec.source.config.connection
    make_importable(spec.folder)  # a token callback may be in a module beside the file
    missing = [name for name, value in connection.consumer_config.items() if _is_missing(name, value)]
    for name in missing:
        yield False, loaded.problem(spec, (*_PROPERTIES, name), "there is no such file on this machine")
    try:
        client = KafkaClientConfig.of(_without_keys(connection) if missing else connection)
    except PenstockError as error:
        yield True, client_problem(loaded, spec, error)
        return
    for warning in client.warnings:
        name = warning.partition(" ")[0]
        path = (*_PROPERTIES, name) if name in connection.consumer_config else _CONNECTION
        yield False, loaded.problem(spec, path, warning)


def client_problem(loaded: Loaded, spec: PipelineSpec, error: PenstockError) -> Problem:
    """What the client refused, at the property that its message names, or else at all of them."""
    scrub = Scrubber(spec.secrets).scrub
    properties = spec.source.config.connection.consumer_config
    named = max((name for name in properties if name in error.message), key=len, default=None)
    if named is None and error.received is not None:
        named = next((name for name, value in properties.items() if value == error.received), None)
    path: KeyPath = (*_PROPERTIES, named) if named else _PROPERTIES
    if spec.source.is_foreign:
        path = ("source", "type")
    return loaded.problem(spec, path, scrub(error.message), hint=scrub(error.hint) if error.hint else None)


def _is_missing(name: str, value: Any) -> bool:
    return name.startswith("ssl.") and name.endswith(".location") and not Path(str(value)).expanduser().exists()


def _without_keys(connection: ConnectionSpec) -> ConnectionSpec:
    kept = {name: value for name, value in connection.consumer_config.items() if not name.startswith("ssl.")}
    return connection.model_copy(update={"consumer_config": kept})
