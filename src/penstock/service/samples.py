"""Sample events of WhereHows, put on a cluster, with a registry that knows their schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from penstock.config.spec import ConnectionSpec
from penstock.config.wire import IdType, RegistryDialect
from penstock.core.errors import ConfigError
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, produce
from penstock.kafka.registry.registration import register_schema
from penstock.tables.sample_events import SAMPLES
from penstock.tables.samples import encoded_samples, fingerprint, framed, schema_text


@dataclass(frozen=True, slots=True)
class Produced:
    """What was put on one topic."""

    topic: str
    processor: str
    table: str
    events: int
    id_type: IdType
    schema_id: str
    """In hex."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def produce_samples(
    connection: ConnectionSpec,
    topics: Sequence[str],
    count: int,
    *,
    registry: str | None,
    dialect: RegistryDialect,
) -> list[Produced]:
    """Produce events of every kind, or of some; without a registry their schema ids are fingerprints."""
    client = KafkaClientConfig.of(connection)
    return [_produce(client, topic, count, registry, dialect) for topic in topics or SAMPLES]


def _produce(
    client: KafkaClientConfig, topic: str, count: int, registry: str | None, dialect: RegistryDialect
) -> Produced:
    schema = schema_text(topic)
    id_type: IdType = "UUID"
    schema_id = fingerprint(topic)
    if registry is not None:
        id_type, schema_id = register_schema(registry, dialect, topic, schema)
    records = (NewRecord(topic, framed(schema_id, body)) for body in encoded_samples(topic, count))
    placed = produce(client, records)
    sample = SAMPLES[topic]
    return Produced(topic, sample.processor, sample.table, len(placed), id_type, schema_id.hex())


def job_text(bootstrap: str, registry: str, dialect: RegistryDialect, produced: Sequence[Produced]) -> str:
    """A job file that reads these topics into their tables; the database is the one that `WHZ_DB_URL` names."""
    # An id's type may differ from topic to topic; most often it does not.
    types = {each.id_type for each in produced}
    lines = [
        "job.type=kafka",
        "group.id=wherehows-samples",
        f"bootstrap.servers={bootstrap}",
        f"schemaRegistryUrl={registry}",
        "auto.offset.reset=smallest",
        f"penstock.registry.dialect={dialect}",
        *(f"penstock.schemaid.type={kind}" for kind in types if len(types) == 1),
        *(f"penstock.schemaid.type.{each.topic}={each.id_type}" for each in produced if len(types) > 1),
        f"kafka.topics={','.join(each.topic for each in produced)}",
        f"kafka.processors={','.join(each.processor for each in produced)}",
        f"kafka.db.tables={','.join(each.table for each in produced)}",
    ]
    return "\n".join(lines) + "\n"


class SampleRegistry:
    """A registry of the samples' schemas, in LinkedIn's dialect: for a first look, where there is no other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > 65_535:
            raise ConfigError("the registry's address is wanted as [HOST:]PORT", received=address)
        try:
            self._server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), _Answers)
        except OSError as error:
            raise ConfigError(f"the registry cannot listen at {address}: {error.strerror}", received=address) from None

    @property
    def url(self) -> str:
        return f"http://{self._server.server_address[0]!s}:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Answer until interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self._server.server_close()


class _Answers(BaseHTTPRequestHandler):
    schemas: ClassVar = {fingerprint(topic).hex(): schema_text(topic) for topic in SAMPLES}

    def do_GET(self) -> None:
        found = self.schemas.get(self.path.rpartition("id=")[2].lower())
        body = found or json.dumps({"error_code": 40403, "message": "no such schema"})
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """The command's own output is enough."""
