"""WhereHows jobs compiled to the spec's words: one job, with all of its topics, is one pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.config.dialects.wherehows_client import read_connection, read_deadline, read_start
from penstock.config.dialects.wherehows_job import Job, Pairing
from penstock.config.dialects.wherehows_lists import read_pairings
from penstock.config.source import check_topic
from penstock.config.wire import ID_TYPES, REGISTRY_DIALECTS

_VALUES = ("fixed", "v0.2.1")
_EXPRESSION = "penstock.expression."
_WIRE: dict[str, tuple[str, tuple[str, ...]]] = {
    "penstock.schemaid.type": ("id_type", ID_TYPES),
    "penstock.registry.dialect": ("dialect", REGISTRY_DIALECTS),
}


def compile_job(job: Job, database: str | None) -> dict[str, Any] | None:
    """The spec's data of a job with lists of topics; None where nothing of it can be run."""
    if database is None:
        hint = "set WHZ_DB_URL (with WHZ_DB_USERNAME and WHZ_DB_PASSWORD) to a JDBC or SQLAlchemy URL"
        job.fail("db.wherehows.url", "required: the database with the tables", hint=hint)
    group = job.require("group.id", hint="the consumer group")
    pairings = read_pairings(job)
    wire = _wire_formats(job, [pairing.topic for pairing in pairings])
    action: dict[str, Any] = {"url": database, **_processing(job)}
    options, start = _options(job), read_start(job)
    connection = read_connection(job)
    if job.failed or database is None:
        return None
    usable = list(_usable(job, pairings, database))
    if not usable:
        return None
    action["topics"] = {each.topic: {"processor": each.processor, "table": each.table} for each in usable}
    source = {
        "connection": connection,
        "group": group,
        "topics": [pairing.topic for pairing in usable],
        "format": "wherehows",
        "start": start,
        "wherehows": wire,
    }
    return {
        "name": job.name,
        "source": {"config": source},
        "action": {"type": "processor", "config": action},
        "options": options,
    }


def _usable(job: Job, pairings: list[Pairing], database: str) -> Iterator[Pairing]:
    """A topic that cannot be worked on is not read: its events wait in Kafka."""
    for pairing in pairings:
        try:
            check_topic(pairing.topic)
        except ValueError as error:
            job.leave_out("kafka.topics", f"{error}; it is not read", received=pairing.topic)
            continue
        refused = job.lookups and job.lookups.refusal(pairing, database, str(job.document.folder))
        if refused:
            key, message, hint = refused
            job.leave_out(key, f"topic {pairing.topic} is not read: {message}", hint=hint)
        else:
            yield pairing


def _options(job: Job) -> dict[str, Any]:
    deadline = read_deadline(job)
    return {} if deadline is None else {"window": {"deadline": deadline}}


def _processing(job: Job) -> dict[str, Any]:
    """What the job says to its processors."""
    found: dict[str, Any] = {"values": _word(job, "wherehows.values", _VALUES), "zone": job.take("penstock.zone")}
    owners = _word(job, "penstock.owners", ("true", "false"))
    if owners is not None:
        found["owners"] = owners == "true"
    expressions = {
        key.removeprefix(_EXPRESSION): job.take(key) for key in list(job.properties) if key.startswith(_EXPRESSION)
    }
    found["expressions"] = {name: value for name, value in expressions.items() if value is not None} or None
    return {name: value for name, value in found.items() if value is not None}


def _wire_formats(job: Job, topics: list[str]) -> dict[str, Any]:
    """How ids are written and asked for: for the job, and for single topics by a suffix."""
    found: dict[str, Any] = {}
    for key, (name, allowed) in _WIRE.items():
        if (value := _word(job, key, allowed)) is not None:
            found[name] = value
        for suffixed in [each for each in job.properties if each.startswith(f"{key}.")]:
            topic = suffixed.removeprefix(f"{key}.")
            value = _word(job, suffixed, allowed)
            if topic not in topics and not job.failed:
                job.warn(suffixed, f"not used: the job has no topic {topic!r}")
            elif value is not None:
                found.setdefault("by_topic", {}).setdefault(topic, {})[name] = value
    if (limit := job.number("max.schemas.per.subject", 1)) is not None:
        found["max_schemas"] = limit
    return found


def _word(job: Job, key: str, allowed: tuple[str, ...]) -> str | None:
    value = job.take(key)
    if value is None:
        return None
    found = next((word for word in allowed if word.lower() == value.lower()), None)
    if found is None:
        job.fail(key, f"{value!r} is none of {', '.join(allowed)}", received=value, allowed=allowed)
    return found
