"""The keys of `kafka_configuration`, for the JSON Schema and the reference; `config.trigger` is what checks them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from penstock.config.model import Model


class KafkaConfiguration(Model):
    """Where a trigger's messages come from: Lightning's fields, and some of Penstock's own."""

    hosts: list[list[str | int] | str] | None = Field(default=None, min_length=1)
    """Brokers, each as `[host, port]` or `host:port`."""
    hosts_string: str | None = None
    """The same as one text: `host:port, host:port`; goes before `hosts`."""
    topics: list[str] | None = Field(default=None, min_length=1)
    """Topics, each named once."""
    topics_string: str | None = None
    """The same as one text: `topic_1, topic_2`; goes before `topics`."""
    initial_offset_reset_policy: str | int | None = None
    """Where to begin without a committed offset: `earliest`, `latest`, or epoch milliseconds (13 digits)."""
    connect_timeout: int | None = Field(default=None, ge=1)
    """Seconds; default 30."""
    group_id: str | None = None
    """Consumer group that is taken over; made once where none is given."""
    ssl: bool | None = None
    """Whether the connection is encrypted; default false."""
    sasl: Literal["plain", "scram_sha_256", "scram_sha_512"] | None = None
    """How to log in; absent: not at all."""
    username: str | dict[str, Any] | None = None
    """With `sasl`; `${NAME}` and `${file:path}` stay references."""
    password: str | dict[str, Any] | None = None
    """With `sasl`; kept encrypted, and never shown."""
    topic_pattern: str | None = None
    """Instead of topics: a regular expression beginning with `^`."""
    ssl_ca: str | None = None
    """Authority of the brokers' certificates: PEM text, or the path of a file."""
    ssl_certificate: str | None = None
    """Certificate by which the client shows itself: PEM text, or the path of a file."""
    ssl_key: str | dict[str, Any] | None = None
    """Its key: PEM text, or the path of a file."""
    ssl_key_password: str | dict[str, Any] | None = None
    """Password of the key."""
    properties: dict[str, Any] | None = None
    """Kafka client properties by librdkafka's or Java's names, for OAUTHBEARER, MSK IAM, GSSAPI and the like."""
