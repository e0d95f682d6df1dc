"""Tables of Kafka client properties: which kind of client each is for, which are fixed, which may be set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.errors import ConfigError

DECIDED_HERE = {
    "group.id": "set source.config.group",
    "group.instance.id": "static membership would keep partitions from being handed over",
    "group.protocol": "Penstock uses the classic protocol, cooperatively",
    "enable.auto.commit": "Penstock commits after the work is done",
    "auto.commit.interval.ms": "Penstock commits after the work is done",
    "enable.auto.offset.store": "Penstock commits after the work is done",
    "partition.assignment.strategy": "Penstock uses cooperative-sticky",
}
"""Properties that are removed from the user's configuration, with the reason."""

CONSUMER_ONLY = {
    "allow.auto.create.topics",
    "auto.offset.reset",
    "check.crcs",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.poll.interval.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
}
"""Properties that librdkafka warns about in a producer or admin client."""

PRODUCER_ONLY = {
    "acks",
    "batch.num.messages",
    "batch.size",
    "compression.codec",
    "compression.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "message.send.max.retries",
    "message.timeout.ms",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "request.required.acks",
    "request.timeout.ms",
    "retries",
    "sticky.partitioning.linger.ms",
    "transaction.timeout.ms",
    "transactional.id",
}
"""Properties that librdkafka warns about in a consumer."""

_HARMLESS = (
    CONSUMER_ONLY
    | PRODUCER_ONLY
    | {
        "api.version.request",
        "broker.address.family",
        "broker.address.ttl",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "enable.ssl.certificate.verification",
        "max.in.flight",
        "message.max.bytes",
        "metadata.max.age.ms",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "ssl.ca.pem",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.truststore.certificates",
        "topic.metadata.refresh.interval.ms",
    }
)


def refuse_dangerous(properties: Mapping[str, Any]) -> None:
    """Accept from an API caller only what cannot load code, read local files or connect to another address."""
    bad = sorted(name for name in properties if name not in _HARMLESS)
    if bad:
        raise ConfigError(
            f"not taken from API callers: {', '.join(bad)}",
            received=bad,
            allowed=sorted(_HARMLESS),
            hint="give certificates as PEM text (ssl.ca.pem, ssl.certificate.pem, ssl.key.pem)",
        )
