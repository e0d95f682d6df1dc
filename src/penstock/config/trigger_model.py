"""The keys of `kafka_configuration`, for the JSON Schema and the reference; `config.trigger` is what checks them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from penstock.config.model import Model
from penstock.core.declarations import REFERABLE, SECRET, Address, Needs, Properties, is_path_of_pem

_PEM = Needs("file", "a file", is_path_of_pem)


class KafkaConfiguration(Model):
    """Where a trigger's messages come from: Lightning's fields, and some of Penstock's own."""

    hosts: Annotated[list[list[str | int] | str] | None, Address("hosts")] = Field(default=None, min_length=1)
    """Brokers, each as `[host, port]` or `host:port`."""
    hosts_string: Annotated[str | None, Address("brokers")] = None
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
    username: Annotated[str | dict[str, Any] | None, REFERABLE] = None
    """With `sasl`; `${NAME}` and `${file:path}` stay references."""
    password: Annotated[str | dict[str, Any] | None, SECRET] = None
    """With `sasl`; kept encrypted, and never shown."""
    topic_pattern: str | None = None
    """Instead of topics: a regular expression beginning with `^`."""
    ssl_ca: Annotated[str | None, _PEM] = None
    """Authority of the brokers' certificates: PEM text, or the path of a file."""
    ssl_certificate: Annotated[str | None, _PEM] = None
    """Certificate by which the client shows itself: PEM text, or the path of a file."""
    ssl_key: Annotated[str | dict[str, Any] | None, _PEM, SECRET] = None
    """Its key: PEM text, or the path of a file."""
    ssl_key_password: Annotated[str | dict[str, Any] | None, SECRET] = None
    """Password of the key."""
    properties: Annotated[dict[str, Any] | None, Properties("kafka")] = None
    """Kafka client properties by librdkafka's or Java's names, for OAUTHBEARER, MSK IAM, GSSAPI and the like."""
