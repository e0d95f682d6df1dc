"""The Kafka client's part of a job: names of the old consumer, those of today's, and what no longer means anything."""

from __future__ import annotations

from typing import Any

from penstock.config.dialects.wherehows_job import Job
from penstock.config.source import MANAGED_PROPERTIES

_DEADLINE = 1.0
"""Seconds; a window's own deadline, by which offsets are committed anyway."""
_SHORTEST = 0.1

_WITHOUT_MEANING = (
    "consumer.timeout.ms",
    "dual.commit.enabled",
    "exclude.internal.topics",
    "num.consumer.fetchers",
    "offsets.storage",
    "queued.max.message.chunks",
    "rebalance.backoff.ms",
    "rebalance.max.retries",
)
_OF_OTHERS = (
    "etl.max.concurrent.jobs",
    "etl.temp.dir",
    "job.class",
    "job.cron.expr",
    "job.type",
    "specific.avro.reader",
)
"""Said to the scheduler or to the Java library; nothing is lost without them."""
_COMMITS = ("auto.commit.enable", "enable.auto.commit")
_SECURITY = ("sasl.", "security.", "ssl.")
"""Always passed on: a mistake in one of these had better be an error."""
_ZOOKEEPER = "zookeeper."
_REGISTRY = "schema.registry."


def read_connection(job: Job) -> dict[str, Any]:
    """Brokers and registry; takes every property that is left."""
    urls = _registry_urls(job)
    bootstrap = _bootstrap(job)
    _drop_old(job)
    registry = {key.removeprefix(_REGISTRY): job.take(key) for key in _named(job, _REGISTRY)}
    return {
        "bootstrap": bootstrap,
        "schema_registry_url": urls,
        "schema_registry_config": {key: value for key, value in registry.items() if value is not None},
        "consumer_config": _passed_on(job),
    }


def read_deadline(job: Job) -> float | None:
    """The old commit interval is an upper bound: windows that are shorter anyway stay as they are."""
    interval = job.number("auto.commit.interval.ms", 1)
    if interval is None or interval / 1000 >= _DEADLINE:
        return None
    return max(_SHORTEST, interval / 1000)


def read_start(job: Job) -> str | None:
    """Where to begin; the old default skips history, which is worth a word."""
    start = job.take("auto.offset.reset")
    if start is None:
        message = "not set: where the group has no offset yet, what the topics hold already is skipped, as before"
        job.warn("auto.offset.reset", message, hint="auto.offset.reset=smallest begins at the first event")
        return None
    words = {"smallest": "earliest", "earliest": "earliest", "largest": "latest", "latest": "latest"}
    if start.lower() not in words:
        allowed = tuple(words)
        job.fail("auto.offset.reset", f"{start!r} is none of {', '.join(allowed)}", received=start, allowed=allowed)
        return None
    return words[start.lower()]


def _registry_urls(job: Job) -> str:
    alias = job.take("schema.registry.url")
    if alias is not None and not (job.properties.get("schemaRegistryUrl") or "").strip():
        job.properties["schemaRegistryUrl"] = alias
    elif alias is not None and alias != job.properties["schemaRegistryUrl"].strip():
        job.warn("schema.registry.url", "not used: schemaRegistryUrl says something else")
    written = job.require("schemaRegistryUrl", hint="base URL of the schema registry; several, separated by commas")
    return ",".join(url.strip().rstrip("/") for url in written.split(",") if url.strip())


def _bootstrap(job: Job) -> str:
    old = _named(job, _ZOOKEEPER)
    if old:
        named = ", ".join(old)
        job.warn(old[0], f"accepted without effect: {named}; groups and offsets are kept by Kafka itself")
    for key in old:
        del job.properties[key]
    return job.require(
        "bootstrap.servers",
        "required: brokers are asked directly, not by way of ZooKeeper",
        hint="bootstrap.servers=broker1:9092,broker2:9092, beside or in place of zookeeper.connect",
    )


def _drop_old(job: Job) -> None:
    for key in _OF_OTHERS:
        job.take(key)
    ignored = [key for key in _WITHOUT_MEANING if key in job.properties]
    for key in ignored:
        del job.properties[key]
    if ignored:
        job.warn(ignored[0], f"accepted without effect: {', '.join(ignored)}")
    for key in (key for key in _COMMITS if key in job.properties):
        del job.properties[key]
        job.warn(key, "not used: Penstock always commits, and only what is settled")
    for key in sorted(MANAGED_PROPERTIES & job.properties.keys()):
        del job.properties[key]
        job.warn(key, "is set by Penstock itself; the value given is not used")


def _passed_on(job: Job) -> dict[str, str]:
    passed: dict[str, str] = {}
    for key in list(job.properties):
        value = job.properties.pop(key)
        known = job.lookups is None or key.startswith(_SECURITY) or job.lookups.knows_property(key, value)
        if not known:
            job.warn(key, "not used: neither Penstock nor the Kafka client knows it")
        else:
            passed[key] = value
    return passed


def _named(job: Job, prefix: str) -> list[str]:
    return [key for key in job.properties if key.startswith(prefix)]
