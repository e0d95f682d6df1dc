"""The `kafka` action: produces each event to a topic, and calls it done when the cluster has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator

from penstock.config.spec import ConnectionSpec, KafkaSourceConfig, Model
from penstock.core.durations import Duration
from penstock.core.errors import ConfigError, PenstockError, Unavailable
from penstock.core.event import Event, Headers, json_bytes
from penstock.core.expression import Cel, Expression, ExpressionError
from penstock.core.plugin import BatchAction, PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, RecordProducer

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class ComputedTopic(Model):
    """A topic that depends on the event."""

    cel: Cel
    """Expression that gives the topic's name."""


class KafkaConfig(Model):
    """Keys of the `kafka` action."""

    topic: str | ComputedTopic
    """Name of the topic, or `{cel: …}` to compute it."""
    connection: ConnectionSpec | None = None
    """The cluster; absent: the one the pipeline reads from."""
    key: Cel | None = None
    """Expression for the key; absent: the key as read."""
    value: Cel | None = None
    """Expression for the value (`event` is the transformed value as JSON); absent: the very bytes that were read."""
    headers: dict[str, Cel] | None = None
    """Header to expression; absent: the headers as read."""
    timeout: Duration = Field(default=10.0, gt=0)
    """How long the cluster may take to confirm an event before it counts as away."""

    @field_validator("topic")
    @classmethod
    def _a_name(cls, topic: str | ComputedTopic) -> str | ComputedTopic:
        if isinstance(topic, str) and not _NAME.fullmatch(topic):
            raise ValueError("a topic's name has letters, digits, '.', '_' and '-' only; {cel: …} computes one")
        return topic


class Kafka(BatchAction):
    """Produces a batch and waits until each event of it is confirmed by all in-sync replicas."""

    parallel_safe: ClassVar[bool] = True
    config_model: ClassVar[type[KafkaConfig]] = KafkaConfig
    type_name: ClassVar[str] = "kafka"

    def __init__(
        self, config: KafkaConfig, client: KafkaClientConfig, sources: KafkaSourceConfig | None = None
    ) -> None:
        self._client = client
        self._timeout = config.timeout
        self._producer = RecordProducer(client, timeout=config.timeout)
        self._topic = _topic(config.topic, sources)
        self._key = _part(config.key, lambda event: event.key)
        self._value = _part(config.value, lambda event: event.record.value())
        self._headers = _headers(config.headers)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        parsed = parse_config(KafkaConfig, config, "kafka")
        source = ctx.source if isinstance(ctx.source, KafkaSourceConfig) else None
        connection = parsed.connection or (source.connection if source is not None else None)
        if connection is None:
            raise ConfigError("kafka: `connection` is required where the pipeline reads from no cluster")
        sources = source if source is not None and source.connection.shares_cluster(connection) else None
        return cls(parsed, KafkaClientConfig.of(connection), sources)

    def act_batch(self, events: Sequence[Event]) -> list[Exception | None]:
        results: list[Exception | None] = [None] * len(events)
        outgoing: list[NewRecord] = []
        places: list[int] = []
        for index, event in enumerate(events):
            try:
                outgoing.append(
                    NewRecord(self._topic(event), self._value(event), self._key(event), self._headers(event))
                )
                places.append(index)
            except (ExpressionError, TypeError, ValueError) as error:
                results[index] = error
        for index, result in zip(places, self._producer.send(outgoing), strict=True):
            results[index] = result if isinstance(result, PenstockError) else None
        if any(isinstance(result, Unavailable) for result in results):
            self._renew()
        return results

    def close(self) -> None:
        self._producer.close()

    def _renew(self) -> None:
        """After an outage an idempotent producer may have lost its place in the sequence for good."""
        self._producer.close()
        self._producer = RecordProducer(self._client, timeout=self._timeout)


def _topic(topic: str | ComputedTopic, sources: KafkaSourceConfig | None) -> Callable[[Event], str]:
    if isinstance(topic, str):
        return lambda _event: topic
    expression = Expression(topic.cel)

    def computed(event: Event) -> str:
        name = expression(event)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ExpressionError(f"`{topic.cel}` gave {name!r}, which is no topic's name", received=name)
        if sources is not None and sources.subscribed([name]):
            raise ExpressionError(f"`{topic.cel}` gave {name!r}, which the pipeline reads itself", received=name)
        return name

    return computed


def _part(source: str | None, as_read: Callable[[Event], bytes | None]) -> Callable[[Event], bytes | None]:
    if source is None:
        return as_read
    expression = Expression(source)
    return lambda event: as_bytes(expression(event))


def _headers(sources: dict[str, str] | None) -> Callable[[Event], Headers]:
    if sources is None:
        return lambda event: event.headers
    parts = [(name, Expression(source)) for name, source in sources.items()]
    return lambda event: [(name, as_bytes(expression(event))) for name, expression in parts]


def as_bytes(value: Any) -> bytes | None:
    """Null as null, bytes and texts as they are, anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json_bytes(value)
