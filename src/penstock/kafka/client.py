"""`KafkaClientConfig`: the one model of how to reach a cluster, from librdkafka's or Java's property names."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaException

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import ConfigError, PluginError
from penstock.kafka.errors import kafka_error
from penstock.kafka.security import to_librdkafka

_log = logging.getLogger("penstock.kafka")

_OURS = {
    "group.id": "set source.config.group",
    "group.instance.id": "static membership would keep partitions from being handed over",
    "group.protocol": "Penstock uses the classic protocol, cooperatively",
    "enable.auto.commit": "Penstock commits after the work is done",
    "auto.commit.interval.ms": "Penstock commits after the work is done",
    "enable.auto.offset.store": "Penstock commits after the work is done",
    "partition.assignment.strategy": "Penstock uses cooperative-sticky",
}
"""Properties that the user's configuration may name but not decide, and why."""

_CONSUMER_ONLY = {
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
_PRODUCER_ONLY = {
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

_ENV_PREFIX = "KAFKA_PROPERTIES_"
_ENV_SWITCH = "DATAHUB_ACTIONS_KAFKA_ENV_PROPERTIES_ENABLED"
_ENV_NEVER = {
    "sasl.jaas.config",
    "sasl.client.callback.handler.class",
    "sasl.login.class",
    "sasl.login.callback.handler.class",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "partition.assignment.strategy",
    "group.id",
}
_ENV_NEVER_PREFIXES = ("ssl.keystore", "ssl.truststore", "kafkastore.", "basic.auth.", "schema.registry.")

_LOADS_CODE_OR_FILES = (
    "plugin.library.paths",
    "oauth_cb",
    "ssl.engine.location",
    "ssl.providers",
    "sasl.kerberos.kinit.cmd",
)
_FILE_SUFFIXES = (".location", ".keytab", ".private.key.file", ".jwt.template.file", ".path", ".paths", ".file")

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KafkaClientConfig:
    """How clients reach one cluster. Equal configurations are equal values, so that they can share a bell; it can be pickled."""

    properties: tuple[tuple[str, str], ...]
    """librdkafka's properties, sorted by name."""
    offset_reset: str | None = field(default=None, compare=False)
    """`earliest` or `latest` where the user's properties hold `auto.offset.reset`; it speaks where `start` is absent."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What was left out or overridden, one sentence each."""

    @classmethod
    def of(cls, connection: ConnectionSpec, environ: Mapping[str, str] | None = None) -> KafkaClientConfig:
        """Build it from a connection; a given `environ` adds DataHub's `KAFKA_PROPERTIES_*` below the connection's own properties."""
        given = {k: _text(v) for k, v in connection.consumer_config.items() if v is not None}
        if environ is not None:
            given = env_properties(environ) | given
        properties, warnings = to_librdkafka(given)
        for name, why in _OURS.items():
            if properties.pop(name, None) is not None:
                warnings.append(f"{name} is left out: {why}")
        reset = _offset_reset(properties.pop("auto.offset.reset", None))
        config = cls(
            tuple(sorted(({"bootstrap.servers": _bootstrap(connection.bootstrap)} | properties).items())),
            reset,
            tuple(warnings),
        )
        config.check()
        return config

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """Hashable; the same for clients that may share connections."""
        return self.properties

    @property
    def bootstrap(self) -> str:
        return dict(self.properties)["bootstrap.servers"]

    def consumer(self, overrides: Mapping[str, Any] = _NONE) -> dict[str, Any]:
        """Settings for a consumer; never commits by itself unless the overrides say so."""
        base = {"enable.auto.commit": False, "enable.auto.offset.store": False}
        return self._client(_PRODUCER_ONLY, base, overrides)

    def producer(self, overrides: Mapping[str, Any] = _NONE) -> dict[str, Any]:
        """Settings for a producer; idempotent, with all in-sync replicas, unless told otherwise."""
        return self._client(_CONSUMER_ONLY, {"enable.idempotence": True}, overrides)

    def admin(self, overrides: Mapping[str, Any] = _NONE) -> dict[str, Any]:
        """Settings for an admin client."""
        return self._client(_CONSUMER_ONLY | _PRODUCER_ONLY, {}, overrides)

    def _client(self, foreign: set[str], base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = dict(base)
        settings.update((name, value) for name, value in self.properties if name not in foreign)
        settings.update(overrides)
        settings.setdefault("logger", _log)
        callback = settings.get("oauth_cb")
        if isinstance(callback, str):
            settings["oauth_cb"] = load_callback(callback)
        return settings

    def check(self) -> None:
        """Have librdkafka judge names and values: it knows them all. No connection is awaited."""
        try:
            Consumer(self.consumer({"group.id": "penstock-check", "log_level": 0})).close()
        except KafkaException as error:
            raise ConfigError(
                f"the Kafka client refuses its configuration: {kafka_error(error).str()}",
                received=sorted(name for name, _ in self.properties),
                hint="property names are librdkafka's or Java's; see connection.consumer_config",
            ) from None

    def __repr__(self) -> str:
        # I8: values may be passwords and keys.
        return f"KafkaClientConfig({self.bootstrap}, {[name for name, _ in self.properties]})"


def env_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """DataHub's `KAFKA_PROPERTIES_X_Y` variables as properties `x.y`; empty ones and those it never takes are left out."""
    if environ.get(_ENV_SWITCH, "true").strip().lower() == "false":
        return {}
    found: dict[str, str] = {}
    for name, value in environ.items():
        if not name.startswith(_ENV_PREFIX) or not value:
            continue
        rest = name.removeprefix(_ENV_PREFIX).lower()
        key = "oauth_cb" if rest == "oauth_cb" else rest.replace("_", ".")
        if key not in _ENV_NEVER and not key.startswith(_ENV_NEVER_PREFIXES):
            found[key] = value
    return found


def refuse_dangerous(properties: Mapping[str, Any]) -> None:
    """Refuse properties that would load code or read files of this machine on behalf of an API caller."""
    bad = sorted(name for name in properties if name in _LOADS_CODE_OR_FILES or name.endswith(_FILE_SUFFIXES))
    # These may also name files or endpoints that the server would fetch with its own rights.
    bad += sorted(name for name in properties if name.startswith("sasl.oauthbearer.") and name.endswith(".url"))
    if bad:
        raise ConfigError(
            "properties that load code or files are not taken from API callers",
            received=bad,
            allowed=["ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "sasl.username", "sasl.password"],
            hint="give certificates as PEM text, or put the pipeline's file on the server",
        )


def load_callback(path: str) -> Callable[[str], Any]:
    """The token callback named `module:function`; it takes the one argument that the client gives it."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise PluginError(f"oauth_cb cannot be imported: {error}", received=path, allowed="module:function") from error
    required = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    arguments = (
        [p for p in inspect.signature(found).parameters.values() if p.kind in required] if callable(found) else []
    )
    if len(arguments) != 1:
        raise PluginError("oauth_cb must be a function of exactly one positional argument", received=path)
    callback: Callable[[str], Any] = found
    return callback


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _bootstrap(text: str) -> str:
    servers = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [server for server in servers if "://" in server or "/" in server]
    if wrong or not servers:
        raise ConfigError(
            "bootstrap is a comma list of host[:port], without a scheme",
            received=text,
            allowed="broker1:9092,broker2:9092",
        )
    return ",".join(servers)


_RESETS = {
    "earliest": "earliest",
    "smallest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "largest": "latest",
    "end": "latest",
}


def _offset_reset(value: str | None) -> str | None:
    if value is None or value in ("none", "error"):
        return None
    if value not in _RESETS:
        raise ConfigError("unknown value of auto.offset.reset", received=value, allowed=["earliest", "latest"])
    return _RESETS[value]
