"""DataHub Actions files: what they say differently from native ones, compiled to the spec's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict, Field, ValidationError, field_validator

from penstock.config.dialects.datahub_environment import ENV_PREFIX, env_properties
from penstock.config.model import Model
from penstock.config.problems import Path
from penstock.config.source import MANAGED_PROPERTIES
from penstock.config.spec import DATAHUB_KEYS, OptionsSpec, PipelineSpec, StepSpec

FAILED_EVENTS = "/tmp/logs/datahub/actions"  # noqa: S108 - DataHub's own default
FILTER_TYPE = "__filter"
"""DataHub's internal name of the transform that the legacy `filter` becomes."""

_COMMIT_KEYS = ("async_commit_enabled", "async_commit_interval", "commit_retry_count", "commit_retry_backoff")

Remark = tuple[Path, str, str | None]
"""Path, message, hint."""


class LegacyFilter(Model):
    """DataHub's deprecated `filter`: event types, and one predicate for the event."""

    model_config = ConfigDict(title="filter")

    event_type: list[str] = Field(min_length=1)
    """One event type or a list of them."""
    event: dict[str, Any] | None = None
    """Keys and the values they must have; all must match."""

    @field_validator("event_type", mode="before")
    @classmethod
    def _one_is_a_list(cls, event_type: Any) -> Any:
        return [event_type] if isinstance(event_type, str) else event_type


@dataclass(slots=True)
class Compiled:
    """A DataHub document in the spec's words."""

    data: dict[str, Any]
    first: StepSpec | None = None
    """The transform that the legacy `filter` became."""
    error: ValidationError | None = None
    """What is wrong with the legacy `filter`."""
    warnings: list[Remark] = field(default_factory=list)

    def finish(self, spec: PipelineSpec) -> PipelineSpec:
        """The spec with the legacy filter as its first transform."""
        return spec if self.first is None else spec.model_copy(update={"transform": [self.first, *spec.transform]})


def is_datahub(data: Mapping[str, Any]) -> bool:
    """Whether a document is in DataHub's format: said so, or neither topics nor a format are given, or its source is
    one that only DataHub has."""
    source = data.get("source")
    if not isinstance(source, Mapping):
        return False
    if not _is_kafka(source):
        return True
    config = source.get("config")
    if not isinstance(config, Mapping | None):
        return False
    given = {key: value for key, value in (config or {}).items() if value is not None}
    return given.get("format", "datahub") == "datahub" and not given.keys() & {"topics", "topic_pattern"}


def compile_datahub(data: dict[str, Any], environ: Mapping[str, str], *, files: bool = True) -> Compiled:
    """Compile a document of DataHub's format; without `files`, failed events go to no folder that it does not name."""
    compiled = Compiled(dict(data))
    for section, known in (("options", set(OptionsSpec.model_fields)), ("datahub", set(DATAHUB_KEYS))):
        compiled.warnings += _drop_unknown(compiled.data, section, known)
    if _is_kafka(compiled.data["source"]):
        _default_registry(compiled.data, environ)
        compiled.warnings += _take_environment(compiled.data, environ)
        compiled.warnings += _commit_notes(compiled.data)
        _drain_in_time(compiled.data)
    else:
        compiled.warnings += _drop_outlived(compiled.data)
    _retry_the_chain(compiled.data)
    if files:
        _keep_failed_events(compiled.data)
    if "filter" in compiled.data:
        _compile_filter(compiled)
    return compiled


def as_written(path: Path, data: Mapping[str, Any]) -> Path:
    """Where a key of the compiled spec stands in its document: the legacy `filter` is the first transform."""
    if data.get("filter") is None or path[:1] != ("transform",) or len(path) == 1 or not is_datahub(data):
        return path
    index = int(path[1])
    return ("filter", *path[3:]) if index == 0 else ("transform", index - 1, *path[2:])


def _drop_unknown(data: dict[str, Any], section: str, known: set[str]) -> Iterator[Remark]:
    given = data.get(section)
    if isinstance(given, dict):
        data[section] = {key: value for key, value in given.items() if key in known}
        for key in (key for key in given if key not in known):
            yield (section, str(key)), "unknown key, ignored as DataHub does", None


def _is_kafka(source: Mapping[str, Any]) -> bool:
    return source.get("type") in (None, "kafka")


def _drop_outlived(data: dict[str, Any]) -> Iterator[Remark]:
    """A key of `pg_queue` that DataHub has given up, and refuses since."""
    source, key = data["source"], "poll_interval_seconds"
    config = source.get("config")
    if source.get("type") == "pg_queue" and isinstance(config, dict) and key in config:
        data["source"] = source | {"config": {name: value for name, value in config.items() if name != key}}
        hint = "empty_poll_sleep_min_millis and empty_poll_sleep_max_millis took its place"
        yield ("source", "config", key), "not used any more", hint


def _connection(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The connection as written; None where something else than a map stands in its place."""
    config = data["source"].get("config") or {}
    connection = config.get("connection") or {}
    return connection if isinstance(connection, dict) else None


def _connect(data: dict[str, Any], connection: dict[str, Any]) -> None:
    config = data["source"].get("config") or {}
    data["source"] = data["source"] | {"config": config | {"connection": connection}}


def _default_registry(data: dict[str, Any], environ: Mapping[str, str]) -> None:
    base = environ.get("DATAHUB_GMS_BASE_PATH", "").rstrip("/")
    default = environ.get("KAFKA_SCHEMAREGISTRY_URL") or f"http://localhost:8080{base}/schema-registry/api/"
    connection = _connection(data)
    if connection is not None and not connection.get("schema_registry_url"):
        _connect(data, connection | {"schema_registry_url": default})


def _take_environment(data: dict[str, Any], environ: Mapping[str, str]) -> Iterator[Remark]:
    """`KAFKA_PROPERTIES_*` lie below the file's own properties."""
    connection = _connection(data)
    given = (connection or {}).get("consumer_config") or {}
    if connection is None or not isinstance(given, dict):
        return
    found = env_properties(environ)
    for name in sorted(MANAGED_PROPERTIES & found.keys()):
        variable = ENV_PREFIX + name.upper().replace(".", "_")
        yield ("source", "config", "connection"), f"variable {variable} is not used: Penstock sets {name} itself", None
    taken = {name: value for name, value in found.items() if name not in MANAGED_PROPERTIES}
    if taken:
        _connect(data, connection | {"consumer_config": taken | given})


def _commit_notes(data: Mapping[str, Any]) -> Iterator[Remark]:
    config = data["source"].get("config") or {}
    for key in (key for key in _COMMIT_KEYS if config.get(key) is not None):
        message = "accepted; Penstock commits once per window, when every event of it is settled"
        hint = "a crash repeats at most one window; options.window sets how long one is"
        if key == "commit_retry_count" and str(config[key]).strip() == "0":
            message = "0 would mean that nothing is ever committed; Penstock commits all the same"
        if key.startswith("commit_retry"):
            hint = "a commit is tried until it succeeds or the partition is somebody else's"
        yield ("source", "config", key), message, hint


def _drain_in_time(data: dict[str, Any]) -> None:
    """DataHub's own `max.poll.interval.ms` is 10 s, and files repeat it: a drain must fit into what they say."""
    options = data.get("options") or {}
    written = ((_connection(data) or {}).get("consumer_config") or {}).get("max.poll.interval.ms")
    if not isinstance(options, dict) or options.get("drain_timeout") is not None or not str(written).isdecimal():
        return
    if (half := int(str(written)) / 2000) < OptionsSpec.model_fields["drain_timeout"].default:
        data["options"] = options | {"drain_timeout": half}


def _retry_the_chain(data: dict[str, Any]) -> None:
    """DataHub repeats transforms and action together, at once."""
    options = data.get("options") or {}
    retry = options.get("retry") or {} if isinstance(options, dict) else None
    if isinstance(retry, dict):
        # To the YAML 1.1 of these files the key `on` is a truth value.
        named = {"on" if key is True else key: value for key, value in retry.items()}
        given = {key: value for key, value in named.items() if value is not None}
        data["options"] = options | {"retry": {"scope": "chain", "backoff": 0} | given}


def _keep_failed_events(data: dict[str, Any]) -> None:
    """DataHub's tools look for failed events in a folder, also where the file names none."""
    options = data.get("options") or {}
    if isinstance(options, dict) and options.get("failed_events_dir") is None:
        data["options"] = options | {"failed_events_dir": FAILED_EVENTS}


def _compile_filter(compiled: Compiled) -> None:
    written = compiled.data.pop("filter")
    if written is None:
        return
    hint = "write it as an entry of filters with type event_type"
    compiled.warnings.append((("filter",), "deprecated", hint))
    try:
        legacy = LegacyFilter.model_validate(written)
    except ValidationError as error:
        compiled.error = error
        return
    compiled.first = StepSpec(type=FILTER_TYPE, config=legacy.model_dump())
