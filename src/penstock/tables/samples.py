"""Sample events of every kind that the built-in processors read, with their Avro schemas."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import fastavro

from penstock.core.errors import ConfigError
from penstock.core.loading import did_you_mean
from penstock.tables.sample_events import SAMPLES, SampleTopic


def schema_of(topic: str) -> dict[str, Any]:
    """The Avro schema of a sample topic's events."""
    loaded: dict[str, Any] = json.loads(schema_text(topic))
    return loaded


@cache
def schema_text(topic: str) -> str:
    """The schema as it is registered."""
    _known(topic)
    return files("penstock.tables").joinpath("schemas", f"{topic}.avsc").read_text()


def fingerprint(topic: str) -> bytes:
    """Sixteen bytes that name the schema where no registry gives it an id."""
    return hashlib.md5(schema_text(topic).encode(), usedforsecurity=False).digest()


def sample_record(topic: str, number: int) -> dict[str, Any]:
    """The n-th event of a topic."""
    return _known(topic).make(number)


def encoded_samples(topic: str, count: int) -> Iterator[bytes]:
    """Avro bodies of the first events, without a frame."""
    parsed = fastavro.parse_schema(schema_of(topic))
    for number in range(count):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, sample_record(topic, number))
        yield body.getvalue()


def framed(schema_id: bytes, body: bytes) -> bytes:
    """A value as it is on the wire: the byte 0, the id, the body."""
    return b"\0" + schema_id + body


def _known(topic: str) -> SampleTopic:
    if topic not in SAMPLES:
        raise ConfigError(
            f"there are no samples of `{topic}`",
            received=topic,
            allowed=list(SAMPLES),
            hint=did_you_mean(topic, list(SAMPLES)) or f"known are: {', '.join(SAMPLES)}",
        )
    return SAMPLES[topic]
