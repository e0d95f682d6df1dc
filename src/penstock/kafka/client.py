"""`KafkaClientConfig`: how to reach a cluster, from librdkafka's or Java's property names."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from confluent_kafka import Consumer, KafkaException

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import ConfigError, PluginError
from penstock.core.loading import load_object
from penstock.core.secrets import Secret
from penstock.kafka.errors import kafka_error
from penstock.kafka.properties import CONSUMER_ONLY, DECIDED_HERE, PRODUCER_ONLY
from penstock.kafka.security import to_librdkafka

_log = logging.getLogger("penstock.kafka")

_SESSION = 45_000
"""librdkafka's own session timeout, in milliseconds."""
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class KafkaClientConfig:
    """How clients reach one cluster; can be pickled. Clients with equal configurations may share connections."""

    properties: tuple[tuple[str, str], ...]
    """librdkafka's properties, sorted by name."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What was left out or overridden, one sentence each."""

    @classmethod
    def of(cls, connection: ConnectionSpec) -> KafkaClientConfig:
        """Build it from a connection, which a dialect has completed from its environment."""
        given = {k: _text(v) for k, v in connection.consumer_config.items() if v is not None}
        properties, warnings = to_librdkafka(given)
        for name, why in DECIDED_HERE.items():
            if properties.pop(name, None) is not None:
                warnings.append(f"{name} is left out: {why}")
        properties.pop("auto.offset.reset", None)  # the spec's `start` has taken it over
        everything = {"bootstrap.servers": connection.bootstrap} | properties
        config = cls(tuple(sorted(everything.items())), tuple(warnings))
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
        """Settings for a consumer; no automatic commits, unless overridden."""
        base: dict[str, Any] = {"enable.auto.commit": False, "enable.auto.offset.store": False}
        limit = dict(self.properties).get("max.poll.interval.ms", "")
        if limit.isdecimal() and int(limit) < _SESSION:
            # The client refuses a poll interval below the session timeout, and its default of that is long.
            base["session.timeout.ms"] = limit
        return self._client(PRODUCER_ONLY, base, overrides)

    def producer(self, overrides: Mapping[str, Any] = _NONE) -> dict[str, Any]:
        """Settings for a producer; idempotent, acknowledged by all in-sync replicas, unless overridden."""
        return self._client(CONSUMER_ONLY, {"enable.idempotence": True}, overrides)

    def admin(self, overrides: Mapping[str, Any] = _NONE) -> dict[str, Any]:
        """Settings for an admin client."""
        return self._client(CONSUMER_ONLY | PRODUCER_ONLY, {}, overrides)

    def _client(self, foreign: set[str], base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = dict(base)
        settings.update((name, value) for name, value in self.properties if name not in foreign)
        settings.update(overrides)
        settings.setdefault("logger", _log)
        # A client logs every failed connection, many times a second; `error_cb` gets the same errors.
        settings.setdefault("log_level", 2)
        callback = settings.get("oauth_cb")
        if isinstance(callback, str):
            settings["oauth_cb"] = load_callback(callback)
        return settings

    def check(self) -> None:
        """Validate names and values by librdkafka. Its client gets no addresses, so it connects to nothing and starts
        no thread per broker; it requests no token."""
        settings = self.consumer({"group.id": "penstock-check", "log_level": 0})
        del settings["bootstrap.servers"]
        if "oauth_cb" in settings:
            settings["oauth_cb"] = lambda _: ("unused", time.time() + 3600)
        try:
            Consumer(settings).close()
        except KafkaException as error:
            raise ConfigError(
                f"the Kafka client refuses its configuration: {kafka_error(error).str()}",
                received=sorted(name for name, _ in self.properties),
                hint="property names are librdkafka's or Java's; see connection.consumer_config",
            ) from None

    def __repr__(self) -> str:
        # I8: values may be passwords and keys.
        return f"KafkaClientConfig({self.bootstrap}, {[name for name, _ in self.properties]})"


_UNHEARD_OF = "penstock.unheard.of"


def knows_property(name: str, value: str) -> bool:
    """Whether the client has a property of this name, Java's or librdkafka's; the value is not checked."""
    translated, warnings = to_librdkafka({name: value})
    try:
        # The last property is invalid, so that no client is created; an unknown property is reported before it.
        Consumer({"group.id": "penstock-check", **translated, _UNHEARD_OF: ""})
    except KafkaException as error:
        text = kafka_error(error).str()
    return bool(warnings) or _UNHEARD_OF in text or "No such configuration property" not in text


def load_callback(path: str) -> Callable[[str], Any]:
    """The token callback named `module:function`; it takes the one argument that the client gives it."""
    found = load_object(path)
    required = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    arguments = (
        [p for p in inspect.signature(found).parameters.values() if p.kind in required] if callable(found) else []
    )
    if len(arguments) != 1:
        raise PluginError("oauth_cb must be a function of exactly one positional argument", received=path)
    return cast("Callable[[str], Any]", found)


def _text(value: Any) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
