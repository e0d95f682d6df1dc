"""A WhereHows job on its way to a spec: its properties, where each stands, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.config.documents import Document
from penstock.config.problems import Path as KeyPath
from penstock.config.problems import Problem
from penstock.core.secrets import Scrubber

LISTS = ("kafka.topics", "kafka.processors", "kafka.db.tables")

_CONNECTION = ("source", "config", "connection")
_WRITTEN: dict[KeyPath, str] = {
    (*_CONNECTION, "bootstrap"): "bootstrap.servers",
    (*_CONNECTION, "schema_registry_url"): "schemaRegistryUrl",
    ("source", "config", "group"): "group.id",
    ("source", "config", "start"): "auto.offset.reset",
    ("source", "config", "topics"): "kafka.topics",
    ("source", "config", "wherehows", "id_type"): "penstock.schemaid.type",
    ("source", "config", "wherehows", "dialect"): "penstock.registry.dialect",
    ("source", "config", "wherehows", "max_schemas"): "max.schemas.per.subject",
    ("options", "window", "deadline"): "auto.commit.interval.ms",
    ("options", "dead_letter", "topic"): "kafka.producer.topic",
    ("action", "config", "values"): "wherehows.values",
    ("action", "config", "zone"): "penstock.zone",
    ("action", "config", "owners"): "penstock.owners",
}
_PREFIXED: dict[KeyPath, str] = {
    (*_CONNECTION, "consumer_config"): "",
    (*_CONNECTION, "schema_registry_config"): "schema.registry.",
}
_SPELT_IN_TOPIC_FILES = {"schemaRegistryUrl": "schema.registry.url", "kafka.topics": "kafka.consumer.topic"}
_PAIRED = {"processor": "kafka.processors", "table": "kafka.db.tables"}


@dataclass(frozen=True, slots=True)
class JobDocument(Document):
    """Knows at which property of the job each key of its spec was written, and in which row of a database."""

    label: str = ""
    """Of a job in a database: its row."""
    rows: Mapping[str, str] = field(default_factory=dict)
    """Of a job in a database: the row of each property."""
    prefix: str = ""
    """In front of the client's properties."""

    def place(self, path: KeyPath) -> tuple[int | None, int | None]:
        key = self._written(path)
        if not self.label:
            return Document.place(self, key)
        # A row has no line: told is the one that names the job, or that gives the property to all jobs.
        given = ("properties", *key)
        return Document.place(self, given if key and self._has(given) else ("jobs",))

    def problem(self, path: KeyPath, message: str, **details: Any) -> Problem:
        key = self._written(path)
        line, column = self.place(path)
        shown = ".".join(str(part) for part in key)
        if self.label and not self._has(("properties", *key)):
            shown = f"{self.rows.get(shown, self.label)}{'.' + shown if shown else ''}"
        return Problem(message=message, file=self.file, line=line, column=column, path=shown, **details)

    def _has(self, path: KeyPath) -> bool:
        here = self.data
        for part in path:
            here = here.get(part) if isinstance(here, dict) else None
        return here is not None

    def _written(self, path: KeyPath) -> KeyPath:
        """The key of the job that became this path of the spec; a path that is such a key already is left alone."""
        for length in range(len(path), 0, -1):
            if path[:length] in _WRITTEN:
                return (self._spelt(_WRITTEN[path[:length]]),)
            if path[:length] in _PREFIXED and len(path) > length:
                return (f"{self.prefix}{_PREFIXED[path[:length]]}{path[length]}",)
        if path[:3] == ("action", "config", "expressions") and len(path) > 3:
            return (f"penstock.expression.{path[3]}",)
        if path[:3] == ("action", "config", "topics"):
            return (_PAIRED.get(str(path[-1]), "kafka.topics"),)
        return () if path[:1] in (("source",), ("action",), ("name",)) else path

    def _spelt(self, key: str) -> str:
        """The key as this kind of job has it."""
        if self.prefix:
            key = _SPELT_IN_TOPIC_FILES.get(key, key)
        if key == "schemaRegistryUrl" and key not in self.data and key not in self.rows:
            key = "schema.registry.url"
        return key if key.startswith(("kafka.", "penstock.", "wherehows.")) else self.prefix + key


@dataclass(frozen=True, slots=True)
class StoredProperty:
    """A row of `wh_etl_job_property`, decrypted."""

    value: str
    row: str
    """Table and key of the row."""
    secret: bool = False


@dataclass(slots=True)
class StoredJob:
    """A job as a database holds it."""

    name: str
    """Of the pipeline."""
    row: str
    """Table and key of the row."""
    properties: dict[str, StoredProperty] = field(default_factory=dict)
    problems: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(row and key, message, hint); a job that has any is not used."""
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Which jobs to read from which database."""

    url: str
    ids: tuple[int, ...]
    master_key_file: str | None = None
    """Where the configuration names it; else the database does."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A topic, the processor of its events, and the table that they go to."""

    topic: str
    processor: str
    table: str


class Lookups(Protocol):
    """What compiling jobs asks of layers above."""

    def read_jobs(self, selection: JobSelection) -> Sequence[StoredJob]:
        """The jobs in the order of their ids; an error where the database cannot be read."""

    def refusal(self, pairing: Pairing, url: str, folder: str | None) -> tuple[str, str, str | None] | None:
        """Why a topic cannot be used: the key to blame, message, hint."""

    def knows_property(self, name: str, value: str) -> bool:
        """Whether the Kafka client has such a property."""


@dataclass(slots=True)
class Job:
    """A job with those of its properties that nobody has looked at yet."""

    name: str
    properties: dict[str, str]
    document: JobDocument
    lookups: Lookups | None = None
    secrets: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    failed: bool = False
    """A problem concerns all of the job."""

    def take(self, key: str) -> str | None:
        """The value of a property, without blanks around it; an empty one counts as absent."""
        return (self.properties.pop(key, None) or "").strip() or None

    def require(self, key: str, message: str = "required", hint: str | None = None) -> str:
        """The value of a property that the job cannot do without; empty where it has to."""
        value = self.take(key)
        if value is None:
            self.fail(key, message, hint=hint)
        return value or ""

    def fail(self, key: str, message: str, **details: Any) -> None:
        """The job cannot be run."""
        self.failed = True
        self.leave_out(key, message, **details)

    def leave_out(self, key: str, message: str, **details: Any) -> None:
        """Something of the job cannot be used; the rest can."""
        self.problems.append(self._problem(key, message, details))

    def warn(self, key: str, message: str, **details: Any) -> None:
        """Something is not as the job's author may think."""
        self.warnings.append(self._problem(key, message, details))

    def _problem(self, key: str, message: str, details: dict[str, Any]) -> Problem:
        # I8: a value that was encrypted is secret, whatever its key.
        scrub = Scrubber(self.secrets).scrub
        shown = {name: scrub(value) if isinstance(value, str) else value for name, value in details.items()}
        return self.document.problem((key,), scrub(message), **shown)

    def number(self, key: str, lowest: int) -> int | None:
        """The whole number that a property must be."""
        value = self.take(key)
        if value is None:
            return None
        if not value.isascii() or not value.isdecimal() or int(value) < lowest:
            self.fail(key, f"a whole number from {lowest} on is wanted, not {value!r}", received=value)
            return None
        return int(value)


Compile = Callable[[Job, str | None], dict[str, Any] | None]
"""From a job and the address of the database to a spec's data; None where the job has failed."""
