"""Job files of one topic each, as WhereHows had them last: only their configuration carries over."""

from __future__ import annotations

from typing import Any

from penstock.config.dialects.wherehows_client import read_connection, read_deadline, read_start
from penstock.config.dialects.wherehows_job import Job

TOPIC = "kafka.consumer.topic"
_DUMMY = "wherehows.processors.DummyProcessor"
_LISTS_OF_ACTORS = ("whitelist.mce", "whitelist.mle", "whitelist.mie")


def compile_topic_file(job: Job, _database: str | None) -> dict[str, Any] | None:
    """The spec's data; None where the file cannot be run."""
    topic = job.require(TOPIC)
    processor = job.require("kafka.processor", hint=f"the one that carries over is {_DUMMY}")
    if processor and processor != _DUMMY:
        message = f"{processor!r} is not supported: events of these processors have other schemas than before"
        job.fail("kafka.processor", message, received=processor, allowed=(_DUMMY,))
    letters = job.take("kafka.producer.topic")
    _drop_unused(job)
    client = _of_the_client(job)
    group = client.require("group.id", hint="the consumer group")
    start, deadline = read_start(client), read_deadline(client)
    connection = read_connection(client)
    job.failed = job.failed or client.failed
    if job.failed:
        return None
    options: dict[str, Any] = {} if deadline is None else {"window": {"deadline": deadline}}
    if letters is not None:
        options["dead_letter"] = {"topic": letters}
    source = {
        "connection": connection,
        "group": group,
        "topics": [topic],
        "format": "wherehows",
        "start": start,
        "wherehows": {"id_type": "INT", "dialect": "confluent"},
    }
    return {"name": job.name, "source": {"config": source}, "action": {"type": "hello_world"}, "options": options}


def _of_the_client(job: Job) -> Job:
    """The properties behind `consumer.`, whose problems are the job's."""
    keys = [key for key in job.properties if key.startswith("consumer.")]
    properties = {key.removeprefix("consumer."): job.properties.pop(key) for key in keys}
    for key in job.properties:
        job.warn(key, "not used: properties of the client begin with consumer.")
    return _Consumer(job.name, properties, job.document, job.lookups, problems=job.problems, warnings=job.warnings)


class _Consumer(Job):
    """Says `consumer.` in front of the keys it complains of."""

    def leave_out(self, key: str, message: str, **details: Any) -> None:
        super().leave_out(_shown(key), message, **details)

    def warn(self, key: str, message: str, **details: Any) -> None:
        super().warn(_shown(key), message, **details)


def _shown(key: str) -> str:
    return "consumer.schema.registry.url" if key == "schemaRegistryUrl" else f"consumer.{key}"


def _drop_unused(job: Job) -> None:
    for key in ("kafka.worker.count", "job.class", "job.type"):
        job.take(key)
    unused = [key for key in job.properties if key.startswith("producer.") or key in _LISTS_OF_ACTORS]
    for key in unused:
        del job.properties[key]
    if unused:
        job.warn(unused[0], f"accepted without effect: {', '.join(unused)}")
